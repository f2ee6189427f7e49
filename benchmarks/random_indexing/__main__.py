"""Random indexing against a plain loop and against matrix products; quality of the vectors.

python -m benchmarks.random_indexing --help
"""

import click

from benchmarks.common import DATA, JSON, QUICK, open_session
from benchmarks.random_indexing.comparison import dense, sparse
from benchmarks.random_indexing.limits import cores, roof
from benchmarks.random_indexing.quality import epoch, quality


@click.group(chain=True, invoke_without_command=True)
@DATA
@JSON
@QUICK
@click.pass_context
def main(context, data, target, quick):
    """Compare. Several commands may follow one another; --quick alone runs all of them except quality."""
    open_session(context, data, quick, target)
    if context.invoked_subcommand is None:
        if not quick:
            raise click.UsageError("name a command, or use --quick")
        for command in (sparse, cores, roof, dense, epoch):
            context.invoke(command)


for command in (sparse, cores, roof, dense, epoch, quality):
    main.add_command(command)


if __name__ == "__main__":
    main()
