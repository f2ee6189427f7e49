"""Documents in, a corpus store out."""
