"""CUDA kernels: what they take, and on a machine with a device how fast they are.

python benchmarks/gpu.py --help
"""

import json
import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def row(*cells) -> None:
    """Print one row of a table."""
    print("  ".join(f"{c:>12}" if isinstance(c, str) else f"{c:>12.4g}" for c in cells), flush=True)


@click.group(chain=True)
@click.option("--json", "target", type=click.Path(), help="Write every figure here.")
@click.pass_context
def main(context, target):
    """Measure; several commands may follow one another."""
    context.obj = {"found": {}}
    context.call_on_close(lambda: target and Path(target).write_text(json.dumps(context.obj["found"], indent=1)))


@main.command()
@click.option("--model", "models", multiple=True, help="By default all.")
@click.pass_obj
def ptx(options, models):
    """Registers, shared memory, spills and occupancy by compute capability; needs no device."""
    from corpusmill.kernels.cuda import ptx as compiler
    from cuda_launches import LAUNCHES, kernels

    print("| kernel | threads | shared bytes | registers 7.5 / 8.0 / 9.0 | spilled bytes | occupancy 7.5 / 8.0 / 9.0 |")
    print("|---|---|---|---|---|---|")
    for model in models or LAUNCHES:
        for launch in kernels(model):
            found = {c: compiler.resources_of(compiler.ptx_of(launch, c), c) for c in compiler.MULTIPROCESSORS}
            shared = launch.shared + max(r.shared for r in found.values())
            registers = " / ".join(str(r.registers) for r in found.values())
            spilled = " / ".join(str(r.spilled) for r in found.values())
            busy = " / ".join(f"{compiler.occupancy(launch, r, c):.0%}" for c, r in found.items())
            print(f"| `{launch.name}` | {launch.threads} | {shared} | {registers} | {spilled} | {busy} |", flush=True)
            options["found"][launch.name] = {str(c): r._asdict() for c, r in found.items()}


if __name__ == "__main__":
    main()
