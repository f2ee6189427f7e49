"""Numba kernels on NumPy arrays, one file per model; they know neither stores nor Dask."""
