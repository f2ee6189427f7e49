"""What users see of a run: the live page, metrics, progress bars and reports."""
