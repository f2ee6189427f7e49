"""CUDA kernels: their registers and occupancy, and their speed on a machine with a GPU.

python -m benchmarks.gpu --help
"""

from pathlib import Path

import click

from benchmarks.common import JSON, QUICK, install_emulator, open_session
from benchmarks.gpu.blocks import quality
from benchmarks.gpu.instructions import instructions
from benchmarks.gpu.lda import lda
from benchmarks.gpu.measure import copy_rate, print_row
from benchmarks.gpu.nmf import nmf
from benchmarks.gpu.prediction import predict
from benchmarks.gpu.race import race
from benchmarks.gpu.random_indexing import random_indexing
from benchmarks.gpu.walks import walks
from benchmarks.gpu.word2vec import word2vec
from benchmarks.papers.aga_lda import aga
from benchmarks.papers.full_register import ring

#: Commands that need a GPU or the device of tests/ptx. "race" and "quality" are not among them: they need data, and
#: take long.
ON_DEVICE = ["copy", "lda", "aga", "nmf", "word2vec", "ring", "random-indexing", "walks"]
ANYWHERE = ["predict"]


@click.group(chain=True, invoke_without_command=True)
@JSON
@QUICK
@click.pass_context
def main(context, target, quick):
    """Measure. Several commands may follow one another. Without a command, all run that this machine can run.

    Without a GPU, CORPUSMILL_PTX=9.0 and --quick run the kernels' PTX on the CPU.
    """
    install_emulator()
    open_session(context, Path(), quick, target)
    if context.invoked_subcommand is None:
        context.invoke(every)


@main.command("all")
@click.pass_context
def every(context):
    """Every command that this machine can run."""
    from corpusmill.pipeline.engine.device import has_cuda

    names = ["ptx", *ANYWHERE]
    if has_cuda():
        names += ON_DEVICE
    for name in names:
        print(f"\n== {name}: {main.commands[name].get_short_help_str(100)}", flush=True)
        context.invoke(main.commands[name])


@main.command()
@click.option("--model", "models", multiple=True, help="The default is all models.")
@click.pass_obj
def ptx(session, models=()):
    """Registers, shared memory, spilled bytes and occupancy by compute capability; needs no GPU."""
    from tests.helpers import cuda_ptx as compiler
    from tests.helpers.cuda_launches import LAUNCHES, kernels
    from tests.ptx.compiler import name_of

    print("| kernel | threads | shared bytes | registers 7.5 / 8.0 / 9.0 | spilled bytes | occupancy 7.5 / 8.0 / 9.0 |")
    print("|---|---|---|---|---|---|")
    for model in models or (["lda, mini-batches"] if session.quick else LAUNCHES):
        for launch in kernels(model):
            texts = compiler.ptx_of(launch, *compiler.MULTIPROCESSORS)
            found = {c: compiler.resources_of(text, c) for c, text in texts.items()}
            shared = launch.shared + max(r.shared for r in found.values())
            registers = " / ".join(str(r.registers) for r in found.values())
            spilled = " / ".join(str(r.spilled) for r in found.values())
            busy = " / ".join(f"{compiler.occupancy(launch, r, c):.0%}" for c, r in found.items())
            name = name_of(launch.function)
            print(f"| `{name}` | {launch.threads} | {shared:,} | {registers} | {spilled} | {busy} |", flush=True)
            session.figures[f"ptx {name} {launch.shared}"] = {str(c): r._asdict() for c, r in found.items()}


@main.command()
@click.pass_obj
def copy(session):
    """Bytes per second that a copy on the device reads and writes."""
    print_row("copy", "GB/s", copy_rate(session) / 1e9)


MODELS = (lda, aga, nmf, word2vec, ring, random_indexing, walks, race, quality, predict, instructions)
for command in MODELS:
    main.add_command(command)


if __name__ == "__main__":
    main()
