"""Stores, readers of documents, matrices and edges, and the processing of text. They use neither kernels nor Dask."""
