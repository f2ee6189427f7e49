"""Node2Vec: random walks on a graph, then Word2Vec's training."""
