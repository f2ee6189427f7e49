"""Comparisons with other libraries: run one with ``python -m benchmarks.NAME --help``."""
