"""Applies a trained model to a corpus: tasks that run on workers, one per chunk."""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ....io.errors import DataError
from ....io.stores.chunk import Chunk
from ....io.stores.corpus import Corpus
from ....io.stores.store import Arrays, JsonObject, Store
from ....io.words import find_word_ids, translate_words
from ....kernels import random
from ...engine.algorithm import add
from ...engine.data import DataRef, TrainingData, reference
from ...engine.executors import Executor, Result, Task, executor_for
from ...engine.worker.buffers import CACHE
from ..vectors.similarity import row_lengths, top_indices, unit_vector
from .sparse_rows import select_tokens, split_mask

if TYPE_CHECKING:
    from distributed import Client

    from .estimator import Estimator

#: Key of the names of topics in the metadata of these files.
TOPIC_NAMES = "topic_names"
#: Most documents of a chunk whose halves are compared: the work grows with the square.
MATCHED_DOCUMENTS = 512
#: Bytes of document rows that a task holds at once; they become one row group of a file.
GROUP_BYTES = 32 << 20


class EstimatorRef(NamedTuple):
    """A saved model in the arguments of a task. ``name`` changes with the content, so that it can be cached."""

    estimator: "type[Estimator]"
    url: str
    name: str


#: How tasks receive the model: an estimator in this process, an EstimatorRef in other processes.
ModelHandle = Any


class TransformCounts(TypedDict):
    """How many documents and tokens ``transform_to`` has written, and how many tokens had unknown words."""

    documents: int
    tokens: int
    unseen_tokens: int


class Documents(NamedTuple):
    """The documents of one chunk, by the model's word ids; words outside the model's vocabulary are left out."""

    corpus: Corpus
    chunk: Chunk
    doc_ptr: np.ndarray  # (D + 1,) int64
    words: np.ndarray  # (n,) uint32

    def keys(self, estimator: "Estimator") -> np.ndarray:
        """Return one random key per document: (D,) uint64.

        It depends on the seed and the document's words only, so the score of a document does not depend on its
        neighbours.
        """
        return random.fingerprints(self.doc_ptr, self.words, random.key(estimator._seed_number()))


@contextmanager
def model_for_tasks(estimator: "Estimator", executor: Executor) -> Iterator[ModelHandle]:
    """Yield the model in a form that tasks can receive."""
    estimator._fitted()
    if executor.runs_here:
        yield estimator
        return
    name = estimator._saved_name()
    if name:
        # Workers on other machines can read what the user saved, but not this machine's temporary folder.
        yield EstimatorRef(type(estimator), estimator._saved_at, name)
        return
    with tempfile.TemporaryDirectory(prefix="corpusmill-model-") as folder:
        executor.check_folders([folder])
        estimator.save(folder)
        yield EstimatorRef(type(estimator), folder, folder)


def map_chunks(
    estimator: "Estimator", store: TrainingData, client: "Client | None", task: Task, *options: object
) -> list[Result]:
    """Return ``task(model, data, chunk, *options)`` for every chunk of a corpus or a matrix, in order."""
    executor = executor_for(client)
    data = reference(store)
    executor.check_folders([data.url])
    with executor.guarded(), model_for_tasks(estimator, executor) as model:
        arguments = [(model, data, chunk, *options) for chunk in range(len(store.chunks))]
        return executor.map(task, arguments, name=task.__name__)


def sum_chunks(
    estimator: "Estimator", store: TrainingData, client: "Client | None", task: Task, *options: object
) -> Arrays:
    """Return the sum of the arrays that `map_chunks` returns; none for a store without chunks."""
    return reduce(add, map_chunks(estimator, store, client, task, *options), {})


# --- tasks ---


def transform_chunk(model: ModelHandle, data: DataRef, index: int) -> np.ndarray:
    """Transform the documents of a chunk: (D, K), one row per document."""
    estimator, documents = open_documents(model, data, index)
    return estimator._transform_chunk(documents.doc_ptr, documents.words)


def write_transformed_chunk(
    model: ModelHandle, data: DataRef, index: int, out: str, names: Mapping[int, str], top: int | None
) -> TransformCounts:
    """Transform the documents of a chunk, and write a Parquet file as ``transform_to`` describes it.

    ``names`` of topics by number become metadata of its schema.
    """
    estimator, documents = open_documents(model, data, index)
    chunk = documents.chunk
    kept = documents.corpus.kept_columns
    first = documents.corpus.chunks[index].first_document
    described = documents.corpus.read_rows(first, first + chunk.n_documents, ["key", *kept])
    groups = _row_groups(estimator, documents)
    # The first group has no rows. It gives the type and the length of a row, which the schema needs.
    empty = next(groups)
    sink = pa.BufferOutputStream()
    types = {"document": described["key"].type}
    types |= {name: column.type for name, column in _weights_columns(empty, top).items()}
    types |= {name: described[name].type for name in kept}
    metadata = {TOPIC_NAMES: json.dumps(dict(names))} if names else None
    first_row = 0
    with pq.ParquetWriter(sink, pa.schema(types, metadata)) as file:
        for rows in groups:
            # Each call writes one row group, so memory holds no more than one group of rows.
            known = described[first_row : first_row + len(rows)]
            columns = [known["key"], *_weights_columns(rows, top).values(), *(known[name] for name in kept)]
            file.write_table(pa.table(columns, schema=file.schema))
            first_row += len(rows)
    Store(out).write_bytes(f"part-{index:06d}.parquet", sink.getvalue())
    return {
        "documents": chunk.n_documents,
        "tokens": chunk.n_tokens,
        "unseen_tokens": chunk.n_tokens - len(documents.words),
    }


def _weights_columns(rows: np.ndarray, top: int | None) -> dict[str, pa.FixedSizeListArray]:
    """Return the columns of the weights (D, K), or of the ``top`` largest ones of each row and their topics."""
    if top is None:
        return {"weights": _lists(rows)}
    n = min(top, rows.shape[1])
    topics = np.array([top_indices(row, n) for row in rows], np.int32).reshape(len(rows), n)
    return {"topics": _lists(topics), "weights": _lists(np.take_along_axis(rows, topics, axis=1))}


def _lists(rows: np.ndarray) -> pa.FixedSizeListArray:
    """Return one list of fixed length per row."""
    kind = pa.list_(pa.from_numpy_dtype(rows.dtype), rows.shape[1])
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), type=kind)


def search_chunk(
    model: ModelHandle, data: DataRef, index: int, wanted: np.ndarray, topn: int
) -> list[tuple[str, float]]:
    """Return (key, cosine) of the ``topn`` documents of a chunk that are nearest to the vector ``wanted``."""
    estimator, documents = open_documents(model, data, index)
    direction = unit_vector(wanted)
    cosines = np.concatenate([rows @ direction / row_lengths(rows) for rows in _row_groups(estimator, documents)])
    nearest = top_indices(cosines, topn)
    first = documents.corpus.chunks[index].first_document
    keys = documents.corpus.documents["key"].take(first + nearest)
    return list(zip(keys.to_pylist(), cosines[nearest].tolist(), strict=True))


def match_halves_chunk(model: ModelHandle, data: DataRef, index: int) -> Arrays:
    """Count how often the two halves of a document are nearer to each other than to halves of other documents.

    Returns the sums ``pairs``, the pairs of documents, and ``won``, those in which a half is nearer to its own other
    half. Equal similarities count as half a win. At most MATCHED_DOCUMENTS of the chunk are compared.
    """
    estimator, documents = open_documents(model, data, index)
    doc_ptr = documents.doc_ptr[: MATCHED_DOCUMENTS + 1]
    words = documents.words[: doc_ptr[-1]]
    keys = documents.keys(estimator)[: len(doc_ptr) - 1]
    is_first = split_mask(doc_ptr, keys)
    halves = []
    for mask in (is_first, ~is_first):
        rows = estimator._transform_chunk(*select_tokens(doc_ptr, words, mask))
        halves.append(rows / row_lengths(rows)[:, None])
    has_both = halves[0].any(axis=1) & halves[1].any(axis=1)
    # Rounded, so that the result does not depend on the order in which a library adds up products.
    cosines = np.round(halves[0][has_both] @ halves[1][has_both].T, 4)
    n = len(cosines)
    own = np.diagonal(cosines)[:, None]
    # Each document ties with itself once.
    won = (own > cosines).sum() + 0.5 * ((own == cosines).sum() - n)
    return {"won": np.float64(won), "pairs": np.int64(n * (n - 1))}


def open_model(model: ModelHandle) -> Any:
    """Return the estimator that a task received, from this worker's cache if it was saved."""
    if isinstance(model, EstimatorRef):
        return CACHE.load((model, "model"), lambda: model.estimator.load(model.url))
    return model


def open_documents(model: ModelHandle, data: DataRef, index: int) -> tuple[Any, Documents]:
    """Return the estimator that a task received, and the documents of a chunk by its word ids."""
    estimator = open_model(model)
    corpus = Corpus(*data)
    chunk = corpus.read_chunk(index)
    model_ids = find_word_ids(corpus.vocabulary["word"], estimator._vocabulary())
    doc_ptr, words = translate_words(chunk.doc_ptr, chunk.words, model_ids)
    return estimator, Documents(corpus, chunk, doc_ptr, words)


def _row_groups(estimator: Any, documents: Documents) -> Iterator[np.ndarray]:
    """First yield an empty (0, K) array that shows dtype and width, then the rows in groups of about GROUP_BYTES."""
    doc_ptr, words = documents.doc_ptr, documents.words
    empty = estimator._transform_chunk(doc_ptr[:1], words[:0])
    yield empty
    step = max(1, GROUP_BYTES // (empty.itemsize * empty.shape[1]))
    for first in range(0, len(doc_ptr) - 1, step):
        group_ptr = doc_ptr[first : first + step + 1]
        group_words = words[group_ptr[0] : group_ptr[-1]]
        yield estimator._transform_chunk(group_ptr - group_ptr[0], group_words)


#: The file that names the model and the documents, so that a folder never mixes the weights of two models. Readers of
#: folders of Parquet files skip names that begin with an underscore.
DESCRIPTION = "_transform.json"
#: Files with weights of documents.
PART = re.compile(r"part-\d{6}\.parquet")


def claim(folder: Store, origin: JsonObject, replace: bool) -> None:
    """Record what the weights in a folder are computed from, before the first file is written.

    ``origin`` has digests of the ``model`` and of the ``corpus``, and the ``part``, the ``columns`` and the ``top``.
    Raises DataError if the folder has other files, or weights of another origin, unless ``replace`` is True.
    """
    if not replace:
        _check_free(folder, origin)
    folder.write_json(DESCRIPTION, origin)


def _check_free(folder: Store, origin: JsonObject) -> None:
    # File managers leave hidden files in any folder.
    names = [name for name in folder.names() if not name.startswith(".") and name != DESCRIPTION]
    way_out = "choose another folder, or replace them with --replace (in Python, replace=True)"
    others = [name for name in names if not PART.fullmatch(name)]
    if others:
        shown = ", ".join(others[:3])
        raise DataError(
            f"{folder.url}: has files that transform did not write ({shown}); choose another folder, or write beside "
            f"them with --replace (in Python, replace=True)"
        )
    if not folder.exists(DESCRIPTION):
        if names:
            raise DataError(f"{folder.url}: has weights of an unknown model; {way_out}")
        return
    # Folders of earlier versions do not say how many topics they have: all.
    found = {"top": None} | folder.read_json(DESCRIPTION)
    if found == origin:
        return
    if found.get("model") != origin["model"]:
        what = "another model"
    elif found.get("corpus") != origin["corpus"] or found.get("part") != origin["part"]:
        what = "other documents"
    else:
        what = "these documents with other columns"
    raise DataError(f"{folder.url}: has weights of {what}; {way_out}")


def delete_others(folder: Store, n_chunks: int) -> None:
    """Delete the files of an earlier corpus with more chunks."""
    written = {f"part-{chunk:06d}.parquet" for chunk in range(n_chunks)}
    for name in folder.names():
        if PART.fullmatch(name) and name not in written:
            folder.delete(name)
