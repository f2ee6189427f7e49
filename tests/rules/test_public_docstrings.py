"""Docstrings of the public API follow numpydoc: every parameter, result, example and fitted attribute is there."""

import ast
import importlib
import inspect
import re
import textwrap

from helpers.source_tree import ROOT

#: What users import, by module.
PUBLIC = {
    "corpusmill.io.stores.corpus": ["Corpus"],
    "corpusmill.io.stores.graph": ["Graph"],
    "corpusmill.io.stores.matrix": ["Matrix", "write_matrix"],
    "corpusmill.pipeline.cells.anndata": ["fit"],
    "corpusmill.pipeline.commands.actions.hub": ["from_pretrained", "push_to_hub"],
    "corpusmill.pipeline.engine.algorithm": ["Algorithm"],
    "corpusmill.pipeline.engine.cluster.open": ["open_cluster"],
    "corpusmill.pipeline.engine.grid": ["GridAlgorithm"],
    "corpusmill.pipeline.ingest.graph": ["ingest_graph"],
    "corpusmill.pipeline.ingest.ingest": ["ingest"],
    "corpusmill.pipeline.ingest.job": ["IngestOptions"],
    "corpusmill.pipeline.publishing.mlflow": ["MLflowCallback"],
    "corpusmill.pipeline.models.vectors.vectors": ["WordVectors"],
    "corpusmill.pipeline.models.lda.estimator": ["LDA"],
    "corpusmill.pipeline.models.nmf.estimator": ["NMF"],
    "corpusmill.pipeline.models.fastrp.estimator": ["FastRP"],
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


def public():
    """Yield each public class and function, and the sections of its docstring."""
    for module, names in PUBLIC.items():
        for name in names:
            thing = getattr(importlib.import_module(module), name)
            yield thing, sections_of(inspect.getdoc(thing) or "")


def classes():
    """Yield each public class, and the sections of its docstring."""
    return ((thing, sections) for thing, sections in public() if inspect.isclass(thing))


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


def test_the_sections_of_numpydoc_are_there(subtests):
    for thing, sections in public():
        with subtests.test(thing.__name__):
            summary = sections[""][0]
            assert summary.endswith("."), "the first line is a sentence"
            assert "Examples" in sections
            if inspect.isfunction(thing):
                assert "Returns" in sections or "Yields" in sections
            if thing.__name__ in ESTIMATORS:
                assert {"Attributes", "References"} <= sections.keys()


def test_every_parameter_has_an_entry_and_no_other(subtests):
    for thing, sections in public():
        with subtests.test(thing.__name__):
            entries = entries_of(sections.get("Parameters", []))
            expected = [p for p in inspect.signature(thing).parameters if p not in IMPLIED]
            assert list(entries) == expected
            incomplete = [entry for entry, (kind, *text) in entries.items() if not kind or not text]
            assert not incomplete, 'an entry is "name : type", and below it what the parameter means'


def lacking(function):
    """Return what the docstring of a method lacks: nothing, or text."""
    sections = sections_of(inspect.getdoc(function) or "")
    signature = inspect.signature(function)
    expected = [p for p in signature.parameters if p not in IMPLIED]
    if list(entries_of(sections.get("Parameters", []))) != expected:
        return f"Parameters: {', '.join(expected)}"
    if ("Returns" in sections) is (signature.return_annotation is None):
        return "Returns, unless it returns None"
    return "" if "Examples" in sections else "Examples"


def test_every_method_has_parameters_returns_and_an_example(subtests):
    for thing, _ in classes():
        if thing.__name__ not in BASES:
            with subtests.test(thing.__name__):
                found = {name: lacking(function) for name, function in methods_of(thing).items()}
                assert not {name: text for name, text in found.items() if text}


def test_base_classes_explain_the_parameters_of_their_methods(subtests):
    for thing, sections in classes():
        if thing.__name__ in BASES:
            with subtests.test(thing.__name__):
                assert all(inspect.getdoc(function) for function in methods_of(thing).values())
                own = [f for f in methods_of(thing).values() if f.__module__ == thing.__module__]
                expected = {p for function in own for p in inspect.signature(function).parameters} - IMPLIED
                explained = {found[1] for line in sections["Notes"] if (found := re.match(r"- ``(\w+)``: ", line))}
                assert explained == expected


def test_all_names_of_the_reference_are_tested():
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    listed = re.findall(r"^   (?:[\w.]+\.)?(\w+)$", page, re.MULTILINE)
    assert sorted(listed) == sorted(name for names in PUBLIC.values() for name in names)


def test_every_fitted_attribute_has_an_entry(subtests):
    for thing, sections in classes():
        with subtests.test(thing.__name__):
            assert fitted_attributes(thing) <= entries_of(sections.get("Attributes", [])).keys()
