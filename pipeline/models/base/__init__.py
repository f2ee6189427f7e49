"""Base classes of the estimators, saved models and their evaluation."""
