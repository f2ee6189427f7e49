"""CUDA kernels: what they take, and on a machine with a device how fast they are.

python -m benchmarks.gpu --help
"""

import json
from pathlib import Path

import click
from numba import config

from benchmarks.gpu import lda as gpu_lda
from benchmarks.gpu import models as gpu_models
from benchmarks.gpu.measure import copy_rate, row, simulate

LDA = ["lda", "lda-parts", "lda-tuning", "lda-bandwidth"]
ON_DEVICE = ["copy", *LDA, "nmf", "word2vec", "random-indexing", "normalise", "walks"]
ANYWHERE = ["batching", "traffic"]


@click.group(chain=True, invoke_without_command=True)
@click.option("--json", "target", type=click.Path(), help="Write every figure here.")
@click.option("--quick", is_flag=True, help="A few tokens: does it run?")
@click.pass_context
def main(context, target, quick):
    """Measure; several commands may follow one another. Without one: all that this machine can run.

    Where there is no device, NUMBA_ENABLE_CUDASIM=1 and --quick run the commands in the simulator.
    """
    if config.ENABLE_CUDASIM:
        simulate()
    context.obj = {"found": {}, "quick": quick}
    context.call_on_close(lambda: target and write(target, context.obj["found"]))
    if context.invoked_subcommand is None:
        context.invoke(every)


def write(target, found) -> None:
    """Write the figures."""
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(json.dumps(found, indent=1))


@main.command("all")
@click.pass_context
def every(context):
    """Every command that this machine can run."""
    from corpusmill.pipeline.engine.device import has_cuda

    names = [*([] if config.ENABLE_CUDASIM else ["ptx"]), *ANYWHERE, *(ON_DEVICE if has_cuda() else [])]
    for name in names:
        print(f"\n== {name}: {main.commands[name].get_short_help_str(100)}", flush=True)
        context.invoke(main.commands[name])


@main.command()
@click.option("--model", "models", multiple=True, help="By default all.")
@click.pass_obj
def ptx(options, models=()):
    """Registers, shared memory, spills and occupancy by compute capability; needs no device."""
    from tests.helpers import cuda_ptx as compiler
    from tests.helpers.cuda_launches import LAUNCHES, kernels

    print("| kernel | threads | shared bytes | registers 7.5 / 8.0 / 9.0 | spilled bytes | occupancy 7.5 / 8.0 / 9.0 |")
    print("|---|---|---|---|---|---|")
    for model in models or (["lda, mini-batches"] if options["quick"] else LAUNCHES):
        for launch in kernels(model):
            texts = compiler.ptx_of(launch, *compiler.MULTIPROCESSORS)
            found = {c: compiler.resources_of(text, c) for c, text in texts.items()}
            shared = launch.shared + max(r.shared for r in found.values())
            registers = " / ".join(str(r.registers) for r in found.values())
            spilled = " / ".join(str(r.spilled) for r in found.values())
            busy = " / ".join(f"{compiler.occupancy(launch, r, c):.0%}" for c, r in found.items())
            name = compiler.full_name(launch)
            print(f"| `{name}` | {launch.threads} | {shared:,} | {registers} | {spilled} | {busy} |", flush=True)
            options["found"][f"ptx {name} {launch.shared}"] = {str(c): r._asdict() for c, r in found.items()}


@main.command()
@click.pass_obj
def copy(options):
    """Bytes per second that a copy on the device reads and writes."""
    row("copy", "GB/s", copy_rate(options) / 1e9)


for command in (*gpu_lda.COMMANDS, *gpu_models.COMMANDS):
    main.add_command(command)


if __name__ == "__main__":
    main()
