"""Algorithms of the papers that serve for comparison only. They need nothing but the contract of the engine."""
