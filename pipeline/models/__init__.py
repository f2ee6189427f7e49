"""Estimators and the algorithms that they hand to the engine."""
