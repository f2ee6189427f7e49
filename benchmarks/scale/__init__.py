"""The cost of coordination: the real engine on many workers that sleep instead of computing."""
