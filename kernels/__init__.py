"""Compiled kernels on NumPy arrays, one folder per model. They use neither stores nor Dask."""
