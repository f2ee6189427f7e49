"""Random indexing."""
