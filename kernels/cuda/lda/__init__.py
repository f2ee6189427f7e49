"""CUDA kernels of latent Dirichlet allocation."""
