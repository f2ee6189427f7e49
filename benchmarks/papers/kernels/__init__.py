"""Kernels of the algorithms that serve for comparison only."""
