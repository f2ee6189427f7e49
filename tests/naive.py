"""Slow, readable oracles, written from the papers in float64; they share no line with the kernels that they check."""

import numpy as np

# --- Latent Dirichlet allocation ---

# --- Non-negative matrix factorisation ---

# --- Word2Vec and random walks ---

# --- Random indexing ---
