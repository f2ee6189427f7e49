"""Skip-gram with negative sampling, which Word2Vec and Node2Vec train by."""
