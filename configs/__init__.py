"""Example configurations, and the schema that checks configurations and parameters."""
