"""The help texts."""

import re
import subprocess
import sys

import click
from corpusmill.pipeline.commands.cli.main import cli


def command_names():
    """Return the words of every command, such as ("config", "show")."""
    names = []
    for name, command in cli.commands.items():
        if isinstance(command, click.Group):
            names += [(name, below) for below in command.commands]
        else:
            names.append((name,))
    return names


def test_the_help_of_every_command_has_an_example(call, subtests):
    for command in command_names():
        with subtests.test(" ".join(command)):
            code, out, _ = call(*command, "--help")
            assert code == 0
            usage, _, rest = out.partition("Example")
            assert usage.startswith("Usage: corpusmill")
            assert f"corpusmill {' '.join(command)}" in rest


def test_the_help_lists_every_command_with_a_whole_sentence_on_one_screen(call):
    code, out, _ = call("--help")
    assert code == 0
    for name in cli.commands:
        assert re.search(rf"^  {name} +[A-Z].*\w\.$", out, re.MULTILINE), name
    assert len(out.splitlines()) <= 40


def test_help_imports_no_heavy_library():
    # All in one process, which starts once. A library that any help imports stays imported.
    program = f"""
import sys
from corpusmill.pipeline.commands.cli.main import main
for command in {[(), *command_names()]}:
    main([*command, "--help"])
    heavy = {{"numpy", "dask", "numba", "pydantic", "rich", "distributed", "pyarrow", "yaml"}} & set(sys.modules)
    assert not heavy, (command, heavy)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_commands_that_read_a_model_import_neither_dask_nor_sparse_matrices():
    # Dask and distributed take a third of a second of the start, and scipy.sparse a tenth.
    program = """
import sys
import corpusmill.pipeline.commands.actions.models
import corpusmill.pipeline.models.lda.estimator
heavy = {"dask", "distributed", "scipy.sparse", "corpusmill.pipeline.cells.anndata"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_python_runs_the_package_as_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "corpusmill", "--version"], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("corpusmill, version ")
    assert done.returncode == 0
