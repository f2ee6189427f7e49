"""Vector instructions that Numba does not offer by itself."""
