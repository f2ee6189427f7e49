"""The configurations that ship, and the schema that checks them."""
