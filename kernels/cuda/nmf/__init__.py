"""CUDA kernels of non-negative matrix factorisation."""
