"""Text to numbers of words."""
