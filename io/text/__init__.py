"""Splitting text into words, and vocabularies."""
