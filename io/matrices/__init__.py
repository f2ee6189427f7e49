"""Matrices that are read as blocks of rows: AnnData files, 10x files, and matrices in memory."""
