"""A local web page for people who want to understand a model: its topics, words and documents."""
