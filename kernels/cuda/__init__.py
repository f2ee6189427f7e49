"""CUDA kernels: the same file and function names as on the CPU."""
