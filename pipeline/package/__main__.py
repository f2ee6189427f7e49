"""``python -m corpusmill`` is the command ``corpusmill``."""

from corpusmill.pipeline.commands.cli.main import main

main()
