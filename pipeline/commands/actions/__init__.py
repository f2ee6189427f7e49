"""What each command does: configurations and URLs in, plain data out. No click, no printing."""
