"""Random walks and node vectors."""
