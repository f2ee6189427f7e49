"""Kernels of Word2Vec: skip-gram with negative sampling, in three orders of the same updates."""
