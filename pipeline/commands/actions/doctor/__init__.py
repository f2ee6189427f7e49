"""Checks of a machine, a store and a cluster, each with one sentence about what it found."""
