"""Topic models of accessible regions."""
