"""Estimators and the algorithms that the engine trains for them."""
