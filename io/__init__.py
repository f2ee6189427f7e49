"""Stores, readers and writers; they know neither kernels nor Dask."""
