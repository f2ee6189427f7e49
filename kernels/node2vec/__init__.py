"""Kernels of Node2Vec: random walks. Training on the walks is that of Word2Vec."""
