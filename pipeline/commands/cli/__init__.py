"""The command line's options and commands, by click."""
