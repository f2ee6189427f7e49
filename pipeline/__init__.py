"""The engine that trains models on Dask, ingestion, the models, reports, the explorer, and the command line."""
