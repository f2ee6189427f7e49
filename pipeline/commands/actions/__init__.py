"""What each command does: a configuration or URLs in, plain data out. Nothing here prints or uses click."""
