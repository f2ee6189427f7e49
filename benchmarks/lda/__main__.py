"""LDA against tomotopy, gensim and scikit-learn; whole epochs, and how much of them the kernels take; many topics.

python -m benchmarks.lda --help
"""

from dataclasses import dataclass

import click

from benchmarks.common import DATA, JSON, QUICK, Session, open_session
from benchmarks.lda.epochs import epoch, larger_than_memory
from benchmarks.lda.few import few
from benchmarks.lda.quality import quality, race
from benchmarks.lda.speed import speed, topics, transform
from benchmarks.lda.systems import SYSTEMS


@dataclass
class Run:
    """The session, and the systems to compare by name."""

    session: Session
    systems: dict[str, type]


@click.group(chain=True, invoke_without_command=True)
@DATA
@JSON
@click.option("--system", "systems", multiple=True, type=click.Choice(list(SYSTEMS)), default=list(SYSTEMS))
@QUICK
@click.pass_context
def main(context, data, target, systems, quick):
    """Compare LDA with other systems. Several commands may follow one another; --quick alone runs all of them."""
    session = open_session(context, data, quick, target)
    context.obj = Run(session, {name: SYSTEMS[name] for name in systems})
    if context.invoked_subcommand is None:
        if not quick:
            raise click.UsageError("name a command, or use --quick")
        context.invoke(speed, topics=[100])
        context.invoke(race, topics=[100], seconds=2)
        for command in (topics, epoch, larger_than_memory, quality, transform, few):
            context.invoke(command)


for command in (speed, topics, transform, epoch, larger_than_memory, race, quality, few):
    main.add_command(command)


if __name__ == "__main__":
    main()
