"""Readers of source documents, matrices and edges."""
