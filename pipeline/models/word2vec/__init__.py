"""Word2Vec."""
