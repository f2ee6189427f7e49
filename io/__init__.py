"""Stores, readers and writers. They use neither kernels nor Dask."""
