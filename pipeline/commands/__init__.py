"""The command line.

``cli`` declares the commands with click. ``actions`` does the work: it takes a configuration or URLs and returns
plain data. ``terminal`` prints that data. ``results`` holds the types of that data. ``cli`` uses the other three;
``actions`` and ``terminal`` do not use each other.
"""
