"""Kernels of random indexing."""
