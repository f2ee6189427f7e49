"""Each rule of style finds a planted fault, and nothing in code that follows it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.longest_files import RANKS
from helpers.source_tree import ROOT
from rules import style

LONG = "def f(x):\n" + "    x += 1\n" * 59

#: A rule, code that breaks it, the line, and code that does not.
PLANTED = [
    (style.numba_decorators, "import numba\n@numba.njit\ndef f(x): ...", 2, "@kernel\ndef f(x): ..."),
    (style.numba_decorators, "from numba import prange", 1, "from numba import types"),
    (style.code_in_data, "import pickle", 1, "import json"),
    (style.code_in_data, "from joblib.hashing import hash", 1, "from .joblib_names import hash"),
    (style.code_in_data, "x = 1\neval('x')", 2, "evaluate('x')"),
    (style.code_in_data, "np.load(file, allow_pickle=True)", 1, "np.load(file, allow_pickle=False)"),
    (style.changed_clocks, "patch.setattr(watch.time, 'time', f)", 1, "patch.setattr(watch, 'time', clock)"),
    (
        style.kernels_without_shapes,
        "@kernel\ndef f(x):\n    '''Add one.'''",
        2,
        "@kernel\ndef f(x):\n    '''Add one to x (D, K) float32.'''",
    ),
    (style.long_functions, LONG, 1, LONG.replace("    x += 1\n", "    '''One.\n\n    Two.'''\n", 1)),
    (style.many_parameters, "def f(a, b, c, d, e, f, g): ...", 1, "def f(self, a, b, c, d, e, f, g=1): ..."),
    (style.nested_conditionals, "x = 1 if a else (2 if b else 3)", 1, "x = 1 if a else 2"),
    (style.long_comprehensions, "[x for y in z for x in y if x]", 1, "[x for y in z for x in y]"),
]


@pytest.mark.parametrize(("rule", "fault", "line", "correct"), PLANTED)
def test_a_rule_finds_a_planted_fault(rule, fault, line, correct):
    assert [found for found, _ in rule(ast.parse(fault))] == [line]
    assert not list(rule(ast.parse(correct)))


def test_every_rule_has_a_planted_fault_and_files():
    assert {rule for rule, *_ in PLANTED} == set(style.RULES)
    assert all(style.RULES.values())


def test_announced_work_is_found_in_code_and_pages():
    assert list(style.announced_work("one\n# TO" + "DO: two")) == [(2, "TO" + "DO: do it, or leave it out")]
    assert not list(style.announced_work("To do this, call it."))


def test_a_cycle_of_imports_is_found():
    assert list(style.cycles({"io.a": {"io.b"}, "io.b": {"io.c"}, "io.c": {"io.b"}})) == ["io.b -> io.c -> io.b"]
    assert not list(style.cycles({"io.a": {"io.b"}, "io.b": {"io.c"}, "io.c": set()}))


def test_findings_are_printed_with_their_places_and_fail_but_warnings_do_not(tmp_path, monkeypatch, capsys):
    long = tmp_path / "long.py"
    long.write_text("x = 1\n" * 701)
    faulty = tmp_path / "faulty.py"
    faulty.write_text("x = 1\nimport pickle\n")
    monkeypatch.setattr(style, "name_of", lambda path: path.name)
    monkeypatch.setattr(style, "EVERYTHING", [long, faulty])
    monkeypatch.setattr(style, "RULES", {style.code_in_data: [long]})
    assert style.main() == 0
    warning = "long.py:701: warning: more than 700 lines\n"
    assert capsys.readouterr().out == warning
    monkeypatch.setattr(style, "RULES", {style.code_in_data: [long, faulty]})
    assert style.main() == 1
    assert capsys.readouterr().out == warning + "faulty.py:2: pickle runs code found in data\n"


CLASS = """\
'''One.'''


class A:
    def f(self):
        print(1)
"""


@pytest.mark.parametrize(
    ("path", "code", "rules"),
    [
        ("kernels/lda/planted.py", "def f(): ...\n", {"D100", "D103"}),
        ("pipeline/planted.py", CLASS, {"D101", "D102", "T201"}),
        ("io/planted/__init__.py", "x = 1\n", {"D104"}),
        ("tests/helpers/planted.py", "def f(): ...\n", {"D100", "D103"}),
    ],
)
def test_ruff_finds_what_is_not_documented_and_what_prints(path, code, rules):
    ruff = Path(sys.executable).with_name("ruff")
    command = [ruff, "check", "--output-format", "concise", "--stdin-filename", path, "-"]
    done = subprocess.run(command, input=code, cwd=ROOT, capture_output=True, text=True, check=False)
    assert {line.split()[1] for line in done.stdout.splitlines() if line.startswith(path)} == rules, done.stderr


def test_the_longest_files_of_tests_exist():
    assert [path for path in RANKS if not path.exists()] == []
