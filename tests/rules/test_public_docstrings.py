"""Docstrings of the public API follow numpydoc: every parameter, result, example and fitted attribute is there."""

import ast
import importlib
import inspect
import re
import textwrap

import pytest
from helpers.source_tree import ROOT

#: What users import, by module.
PUBLIC = {
    "corpusmill.io.stores.corpus": ["Corpus"],
    "corpusmill.io.stores.graph": ["Graph"],
    "corpusmill.io.stores.matrix": ["Matrix", "write_matrix"],
    "corpusmill.pipeline.cells.anndata": ["fit"],
    "corpusmill.pipeline.engine.algorithm": ["Algorithm"],
    "corpusmill.pipeline.engine.cluster.open": ["open_cluster"],
    "corpusmill.pipeline.engine.grid": ["GridAlgorithm"],
    "corpusmill.pipeline.ingest.graph": ["ingest_graph"],
    "corpusmill.pipeline.ingest.ingest": ["ingest"],
    "corpusmill.pipeline.ingest.options": ["IngestOptions"],
    "corpusmill.pipeline.publishing.mlflow": ["MLflowCallback"],
    "corpusmill.pipeline.models.vectors.vectors": ["WordVectors"],
    "corpusmill.pipeline.models.lda.estimator": ["LDA"],
    "corpusmill.pipeline.models.nmf.estimator": ["NMF"],
    "corpusmill.pipeline.models.node2vec.estimator": ["Node2Vec"],
    "corpusmill.pipeline.models.random_indexing.estimator": ["RandomIndexing"],
    "corpusmill.pipeline.models.word2vec.estimator": ["Word2Vec"],
    "corpusmill.pipeline.views.early_stopping": ["EarlyStopping"],
    "corpusmill.pipeline.views.progress": ["ProgressLines"],
}
ESTIMATORS = {"LDA", "NMF", "Node2Vec", "RandomIndexing", "Word2Vec"}
#: Base classes of models of one's own. Users override their methods, whose parameters the class explains once.
BASES = {"Algorithm", "GridAlgorithm"}
#: Parameters that are not passed by the caller.
IMPLIED = {"self", "cls", "args", "kwargs"}

NAMES = [(module, name) for module, names in PUBLIC.items() for name in names]
CLASSES = [(module, name) for module, name in NAMES if name[0].isupper()]


def each(names):
    """Return a decorator that runs a test for each of these pairs of a module and a name."""
    return pytest.mark.parametrize(("module", "name"), [pytest.param(*pair, id=pair[1]) for pair in names])


def sections_of(docstring):
    """Return the sections of a numpydoc docstring: their lines by title; what comes before them has the title ''."""
    sections = {"": []}
    lines = inspect.cleandoc(docstring).splitlines()
    current = sections[""]
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line and re.fullmatch("-{3,}", following):
            current = sections[line] = []
        elif not re.fullmatch("-{3,}", line):
            current.append(line)
    return sections


def entries_of(lines):
    """Return the text of each entry of a section by name: "a, b : int" begins the entries of a and of b."""
    entries = {}
    names = []
    for line in lines:
        if line and not line.startswith(" "):
            head, _, kind = line.partition(" : ")
            names = [name.strip().lstrip("*") for name in head.split(",")]
            for name in names:
                entries[name] = [kind]
        elif line.strip():
            for name in names:
                entries[name].append(line.strip())
    return entries


def fitted_attributes(cls):
    """Return the public attributes that end in one underscore: assigned, annotated or properties, bases included."""
    found = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("corpusmill."):
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(base)))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.FunctionDef) and any("property" in ast.unparse(d) for d in node.decorator_list):
                found.add(node.name)
    return {name for name in found if re.fullmatch(r"[A-Za-z]\w*[A-Za-z0-9]_", name)}


def methods_of(cls):
    """Return the public methods of a class by name, those of the project's base classes included."""
    functions = {}
    for name in dir(cls):
        found = inspect.getattr_static(cls, name)
        function = getattr(found, "__func__", found)
        if inspect.isfunction(function) and function.__module__.startswith("corpusmill.") and not name.startswith("_"):
            functions[name] = getattr(cls, name)
    return functions


def load(module, name):
    thing = getattr(importlib.import_module(module), name)
    return thing, sections_of(inspect.getdoc(thing) or "")


@each(NAMES)
def test_the_sections_of_numpydoc_are_there(module, name):
    thing, sections = load(module, name)
    summary = sections[""][0]
    assert summary.endswith("."), "the first line is a sentence"
    assert "Examples" in sections
    if inspect.isfunction(thing):
        assert "Returns" in sections or "Yields" in sections
    if name in ESTIMATORS:
        assert {"Attributes", "References"} <= sections.keys()


@each(NAMES)
def test_every_parameter_has_an_entry_and_no_other(module, name):
    thing, sections = load(module, name)
    entries = entries_of(sections.get("Parameters", []))
    expected = [p for p in inspect.signature(thing).parameters if p not in IMPLIED]
    assert list(entries) == expected
    incomplete = [entry for entry, (kind, *text) in entries.items() if not kind or not text]
    assert not incomplete, 'an entry is "name : type", and below it what the parameter means'


@each((module, name) for module, name in CLASSES if name not in BASES)
def test_every_method_has_parameters_returns_and_an_example(module, name):
    thing, _ = load(module, name)
    lacking = {}
    for method, function in methods_of(thing).items():
        sections = sections_of(inspect.getdoc(function) or "")
        signature = inspect.signature(function)
        expected = [p for p in signature.parameters if p not in IMPLIED]
        if list(entries_of(sections.get("Parameters", []))) != expected:
            lacking[method] = f"Parameters: {', '.join(expected)}"
        elif ("Returns" in sections) is (signature.return_annotation is None):
            lacking[method] = "Returns, unless it returns None"
        elif "Examples" not in sections:
            lacking[method] = "Examples"
    assert not lacking


@pytest.mark.parametrize("name", sorted(BASES))
def test_base_classes_explain_the_parameters_of_their_methods(name):
    (module,) = (module for module, names in PUBLIC.items() if name in names)
    thing, sections = load(module, name)
    assert all(inspect.getdoc(function) for function in methods_of(thing).values())
    own = [f for f in methods_of(thing).values() if f.__module__ == module]
    expected = {p for function in own for p in inspect.signature(function).parameters} - IMPLIED
    explained = {found[1] for line in sections["Notes"] if (found := re.match(r"- ``(\w+)``: ", line))}
    assert explained == expected


def test_all_names_of_the_reference_are_tested():
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    listed = re.findall(r"^   (?:[\w.]+\.)?(\w+)$", page, re.MULTILINE)
    assert sorted(listed) == sorted(name for names in PUBLIC.values() for name in names)


@each(CLASSES)
def test_every_fitted_attribute_has_an_entry(module, name):
    thing, sections = load(module, name)
    entries = entries_of(sections.get("Attributes", []))
    assert fitted_attributes(thing) <= entries.keys()
