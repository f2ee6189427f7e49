"""Reading text."""
