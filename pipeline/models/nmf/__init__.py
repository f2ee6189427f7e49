"""Non-negative matrix factorisation."""
