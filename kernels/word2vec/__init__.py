"""Kernels of skip-gram with negative sampling."""
