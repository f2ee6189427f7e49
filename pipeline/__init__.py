"""Estimators, the epoch engine, clusters and the command line: the only room that imports dask."""
