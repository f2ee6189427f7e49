"""Kernels of non-negative matrix factorisation (NMF)."""
