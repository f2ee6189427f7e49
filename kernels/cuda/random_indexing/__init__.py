"""CUDA kernels of random indexing."""
