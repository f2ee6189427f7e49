"""The epoch engine: what an algorithm is, the tasks of an epoch, where they run, and the run's store."""
