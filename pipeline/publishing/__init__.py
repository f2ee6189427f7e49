"""What is made of trained models for others: versions that learn new documents every night, reports, and MLflow's runs.

``plan`` compares the input files and the settings with those of the version in use. ``build`` makes a new version.
``gate`` decides whether it may be published. ``retrain`` calls these in order and switches HEAD of ``versions``.
"""
