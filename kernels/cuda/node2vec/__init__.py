"""CUDA kernels of random walks."""
