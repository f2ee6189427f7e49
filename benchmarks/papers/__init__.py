"""Formulas and algorithms of the papers that only benchmarks and tests need, so that they do not ship."""
