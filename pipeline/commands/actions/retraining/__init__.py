"""Update a published model with new documents.

``plan`` compares the input files and the settings with those of the version in use. ``build`` makes a new version.
``gate`` decides whether it may be published. ``retrain`` calls these in order and switches HEAD.
"""
