"""The epoch engine: the contract of algorithms, the tasks of an epoch, executors and clusters, and the run store."""
