"""The command line.

``cli`` declares the commands with click, and prints what they find. ``actions`` does the work of commands: it takes a
configuration or URLs and returns plain data.
"""
