"""The engine that trains models on Dask, ingestion, the models, and the command line."""
