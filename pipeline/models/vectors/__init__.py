"""Word vectors: one class, its file formats and its evaluation."""
