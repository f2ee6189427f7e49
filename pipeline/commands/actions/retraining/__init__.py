"""Bring a published model up to date: plan, train, compare, publish."""
