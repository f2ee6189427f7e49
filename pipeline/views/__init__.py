"""What users see of a run: the live page, gauges for Prometheus, progress bars and reports."""
