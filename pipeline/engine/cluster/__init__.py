"""Training on a Dask cluster: opening one, distributing the work of a step, and moving results between workers."""
