"""What corpusmill writes: corpora, matrices and graphs, as Zarr and Parquet files."""
