"""Kernels of latent Dirichlet allocation."""
