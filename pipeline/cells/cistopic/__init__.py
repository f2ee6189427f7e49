"""Topic models of accessible regions in the file formats of pycisTopic: cells are documents, regions are words."""
