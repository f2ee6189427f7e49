"""Single-cell data: AnnData files, and the programs cNMF and pycisTopic."""
