"""Results of topic models in AnnData: objects in memory, .h5ad files and Zarr stores.

Keys, as scanpy names its own results::

    obsm["X_topics"] or obsm["X_nmf"]   weights of each cell: (cells, K) float32; rows of LDA sum to 1
    varm["topics"] or varm["NMF"]       weights of each gene: (genes, K) float32; columns of LDA sum to 1
    uns["corpusmill"][name]             parameters, version, digest of the model, history; names of topics, if any
"""

import os
import reprlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from ...io.errors import DataError
from ...io.matrices.additions import add_elements, check_absent
from ...io.matrices.anndata import MatrixFile, is_anndata_file
from ...io.matrices.blocks import RowBlocks
from ...io.matrices.memory import annotated_rows, is_annotated
from ...io.stores.corpus import Corpus
from ..models.base.text import TextEstimator
from ..models.lda.estimator import LDA
from ..models.lda.interop import word_probabilities
from ..models.nmf.estimator import NMF

if TYPE_CHECKING:
    from distributed import Client

#: An AnnData object. The library anndata is optional, so the type cannot be named.
Annotated = Any
AnnotatedT = TypeVar("AnnotatedT")
TopicEstimator = LDA | NMF


class Keys(NamedTuple):
    """The names under which results are stored."""

    obsm: str
    varm: str
    uns: str


def fit(
    adata: AnnotatedT,
    model: TopicEstimator,
    layer: str | None = None,
    key: str | None = None,
    *,
    client: "Client | None" = None,
    replace: bool = False,
) -> AnnotatedT:
    """Train a model on an AnnData object and store the results in it.

    Parameters
    ----------
    adata : anndata.AnnData
        Cells and genes. LDA needs counts; NMF takes any matrix without negative entries.
    model : LDA or NMF
        The estimator to train.
    layer : str, optional
        Layer to train on, or "raw". The default is ``adata.X``.
    key : str, optional
        Name of the results: ``obsm["X_" + key]``, ``varm[key]`` and ``uns["corpusmill"][key]``. By default "X_topics"
        and "topics" for LDA, "X_nmf", "NMF" and "nmf" for NMF.
    client : distributed.Client, optional
        Where to train.
    replace : bool, default=False
        Whether to replace results of the same name.

    Returns
    -------
    anndata.AnnData
        The same object.

    Raises
    ------
    DataError
        If results of this name exist already, or if the matrix cannot be trained on.

    Examples
    --------
    >>> from corpusmill import LDA
    >>> from corpusmill.pipeline.cells.anndata import fit
    >>> fit(adata, LDA(20, max_iter=100), layer="counts")  # doctest: +SKIP
    """
    _check_free(_checked(adata), keys_of(with_topics(model), key), replace)
    model.fit(annotated_rows(adata, layer), client=client)
    return annotate(adata, model, layer, key, client=client, replace=replace)


def annotate(
    adata: AnnotatedT,
    model: TopicEstimator,
    layer: str | None = None,
    key: str | None = None,
    *,
    client: "Client | None" = None,
    replace: bool = False,
) -> AnnotatedT:
    """Store the results of a trained model in an AnnData object. The arguments are those of `fit`."""
    keys = keys_of(with_topics(model), key)
    target = _checked(adata)
    _check_free(target, keys, replace)
    target.obsm[keys.obsm] = np.asarray(model.transform(annotated_rows(adata, layer), client=client), np.float32)
    target.varm[keys.varm] = weights_of_genes(model, [str(name) for name in target.var_names])
    target.uns.setdefault("corpusmill", {})[keys.uns] = description(model)
    return adata


def annotate_file(
    url: str,
    model: TextEstimator,
    data: "str | os.PathLike[str] | Corpus | None" = None,
    layer: str | None = None,
    key: str | None = None,
    *,
    client: "Client | None" = None,
    replace: bool = False,
) -> Keys:
    """Store the results of a trained model in an AnnData file (.h5ad or a Zarr store), in one step.

    Parameters
    ----------
    url : str
        The file. It is either unchanged or complete, whenever the process is killed.
    model : LDA or NMF
        A trained model.
    data : str, path or Corpus, optional
        What to apply the model to: an AnnData file or a corpus, with the same cells in the same order. The default is
        ``url``.
    layer, key, client, replace
        As for `fit`. A layer of a file is called "layers/counts", "raw/X" or "X".

    Returns
    -------
    Keys
        The names under which the results were stored.

    Raises
    ------
    DataError
        If results of this name exist already, or if the cells differ.
    """
    model = with_topics(model)
    keys = keys_of(model, key)
    target = MatrixFile(url)
    given = url if data is None else data
    source: RowBlocks | Corpus
    if isinstance(given, Corpus):
        source = given
    else:
        source = MatrixFile(given, layer) if is_anndata_file(given) else Corpus(given)
    _check_same_cells(url, target.row_names, source)
    if not replace:
        check_absent(url, [f"obsm/{keys.obsm}", f"varm/{keys.varm}", f"uns/corpusmill/{keys.uns}"])
    elements = {
        f"obsm/{keys.obsm}": np.asarray(model.transform(source, client=client), np.float32),
        f"varm/{keys.varm}": weights_of_genes(model, target.column_names or []),
        f"uns/corpusmill/{keys.uns}": description(model),
    }
    add_elements(url, elements, replace)
    return keys


def with_topics(model: TextEstimator) -> TopicEstimator:
    """Return the model; raise ValueError for a model of another kind than LDA and NMF."""
    if not isinstance(model, LDA | NMF):
        raise ValueError(f"{type(model).__name__} has no topics; results of LDA and NMF can be stored in AnnData")
    return model


def keys_of(model: TopicEstimator, key: str | None = None) -> Keys:
    """Return the names of a model's results."""
    if key is not None:
        return Keys(f"X_{key}", key, key)
    if isinstance(model, LDA):
        return Keys("X_topics", "topics", "topics")
    return Keys("X_nmf", "NMF", "nmf")


def weights_of_genes(model: TopicEstimator, genes: list[str]) -> np.ndarray:
    """Return the weights of genes: (genes, K) float32, 0 for genes that the model does not have.

    For LDA, a column has the probabilities of the genes given the topic.
    """
    if isinstance(model, LDA):
        names = model.words_
        weights = word_probabilities(model._fitted()).T
    else:
        names = model._names()
        weights = model.components_.T
    row = {name: position for position, name in enumerate(names)}
    found = np.array([row.get(gene, -1) for gene in genes], np.int64)
    if not (found >= 0).any():
        raise DataError(
            f"the model has none of the {len(genes):,} genes; train it on a matrix with the same names, for example "
            f"with fit(X, vocabulary=adata.var_names)"
        )
    result = np.zeros((len(genes), weights.shape[1]), np.float32)
    result[found >= 0] = weights[found[found >= 0]]
    return result


def description(model: TopicEstimator) -> dict[str, Any]:
    """Return parameters, version, digest and history of a trained model, and the names of its topics if it has some.

    Parameters that are None are left out.
    """
    measure = "log_likelihood" if isinstance(model, LDA) else "error"
    rows = [row for row in model.history_ if measure in row]
    found: dict[str, Any] = {
        "params": {name: _storable(value) for name, value in model._stored_params().items() if value is not None},
        "version": version("corpusmill"),
        "model": model._fitted().digest(),
        "history": {
            "epoch": np.array([row["epoch"] for row in rows], np.int64),
            measure: np.array([row[measure] for row in rows], np.float64),
        },
    }
    if model.topic_names_:
        # One entry per topic, so that they can be the labels of the columns of obsm.
        found["topic_names"] = np.array([model.topic_names_.get(k, "") for k in range(len(model.components_))])
    return found


def _storable(value: Any) -> Any:
    """Return a parameter as a scalar, an array, or, for lists of lists such as seeds, arrays by number."""
    if isinstance(value, str | bool | int | float):
        return value
    items = list(value)
    if any(isinstance(item, list | tuple) for item in items):
        return {str(number): np.array(list(item)) for number, item in enumerate(items)}
    return np.array(items)


def _checked(adata: Annotated) -> Annotated:
    """Return the object; raise TypeError unless it is an AnnData."""
    if not is_annotated(adata):
        raise TypeError(
            f"adata is {reprlib.repr(adata)}: pass an AnnData object, such as anndata.read_h5ad(path, backed='r'); for "
            f"a file, model.fit(path) trains, and annotate_file(path, model) stores the results in it"
        )
    return adata


def _check_free(adata: Annotated, keys: Keys, replace: bool) -> None:
    """Raise DataError if an object has results of these names."""
    taken = [f"obsm[{keys.obsm!r}]"] if keys.obsm in adata.obsm else []
    if keys.varm in adata.varm:
        taken.append(f"varm[{keys.varm!r}]")
    if keys.uns in adata.uns.get("corpusmill", {}):
        taken.append(f"uns['corpusmill'][{keys.uns!r}]")
    if taken and not replace:
        raise DataError(f"adata has {', '.join(taken)} already; pass replace=True, or choose another key")


def _check_same_cells(url: str, cells: pa.Array | None, source: RowBlocks | Corpus) -> None:
    """Raise DataError unless the documents are the cells of the file, in the same order."""
    names = source.documents["key"] if isinstance(source, Corpus) else source.row_names
    where = source.url if isinstance(source, Corpus) else source.where
    if names is None or cells is None or names.to_pylist() != cells.to_pylist():
        count = "unnamed" if names is None else f"{len(names):,}"
        raise DataError(
            f"{where}: {count} cells, which are not the {0 if cells is None else len(cells):,} cells of {url} in the "
            f"same order; apply the model to the file itself"
        )
