"""CUDA kernels of skip-gram with negative sampling."""
