"""What people see of a run: the live page, metrics, progress bars, reports."""
