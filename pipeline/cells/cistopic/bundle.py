"""The files of one model, as pycisTopic's command line reads them.

With P for ``{prefix}.{K}_topics``, C cells, R regions and K topics::

    P.cell_topic_probabilities.parquet   C rows, one column of lists of K float32: share of each topic in the cell
    P.region_topic_counts.parquet        K rows, one column of lists of R int32: tokens of each region in the topic
    P.stats.json                         see `statistics`
    P_cell_topic_adata.h5ad              AnnData of C cells and K topics, written on request: the shares
    P_region_topic_adata.h5ad            AnnData of R regions and K topics, written on request: shares of each topic
    P.parameters.json                    written last: its presence means that the bundle is complete
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse

from ....io.matrices.additions import write_anndata
from ....io.stores.corpus import Corpus
from ....io.stores.filesystems import replacing
from ...engine.run import RunStore
from ...models.lda.estimator import LDA
from ...models.lda.interop import word_counts
from .statistics import CellGroup, Statistics, shares_of, statistics

#: Bytes of the shares of cells in one row group.
GROUP_BYTES = 64 << 20


@dataclass(frozen=True)
class Settings:
    """The parameters of one model, with pycisTopic's names and meanings."""

    n_topics: int
    alpha: float = 50.0
    alpha_by_topic: bool = True
    eta: float = 0.1
    eta_by_topic: bool = False
    iterations: int = 150
    optimize_interval: int = 0
    random_seed: int = 555
    sampler: str = "gibbs"

    def estimator(self, device: str = "auto") -> LDA:
        """Return the estimator with these parameters."""
        learns = self.optimize_interval > 0
        return LDA(
            n_components=self.n_topics,
            doc_topic_prior=self.alpha / self.n_topics if self.alpha_by_topic else self.alpha,
            topic_word_prior=self.eta / self.n_topics if self.eta_by_topic else self.eta,
            max_iter=self.iterations,
            learn_priors="asymmetric" if learns else "none",
            learn_every=self.optimize_interval if learns else 10,
            random_state=self.random_seed,
            sampler=self.sampler,
            device=device,
        )


class Bundle:
    """The files of one model."""

    def __init__(self, prefix: str, settings: Settings):
        self.prefix = prefix
        self.settings = settings
        self.base = f"{prefix}.{settings.n_topics}_topics"
        self.cells = Path(f"{self.base}.cell_topic_probabilities.parquet")
        self.regions = Path(f"{self.base}.region_topic_counts.parquet")
        self.parameters = Path(f"{self.base}.parameters.json")
        self.statistics = Path(f"{self.base}.stats.json")
        self.cells_anndata = Path(f"{self.base}_cell_topic_adata.h5ad")
        self.regions_anndata = Path(f"{self.base}_region_topic_adata.h5ad")

    def is_complete(self, corpus: Corpus) -> bool:
        """Return whether the files exist and were made of the same corpus with the same parameters."""
        if not (self.parameters.exists() and self.cells.exists() and self.regions.exists()):
            return False
        found = json.loads(self.parameters.read_text()).get("corpusmill", {})
        return found.get("settings") == vars(self.settings) and found.get("data") == corpus.hash

    def write(self, model: LDA, run: RunStore, corpus: Corpus, seconds: float, n_threads: int) -> None:
        """Write the files of a trained model. ``run`` has the topic of every token."""
        # A bundle with other parameters must not look complete while its files are replaced.
        self.parameters.unlink(missing_ok=True)
        for derived in (self.statistics, self.cells_anndata, self.regions_anndata):
            derived.unlink(missing_ok=True)
        _write_lists(self.cells, "cell_topic_probabilities", _cell_shares(run, corpus, self.settings.n_topics))
        counts = region_counts(model, corpus)
        _write_lists(self.regions, "region_topic_counts", (counts[k : k + 1] for k in range(len(counts))))
        with replacing(self.parameters) as path:
            parameters = self._parameters(model, corpus, seconds, n_threads)
            path.write_text(json.dumps(parameters, indent=1) + "\n")

    def write_anndata(self, corpus: Corpus) -> None:
        """Write the two AnnData files of a complete bundle, unless they exist."""
        topics = [f"Topic{number}" for number in range(1, self.settings.n_topics + 1)]
        if not self.cells_anndata.exists():
            cells = corpus.documents["key"].to_pylist()
            with replacing(self.cells_anndata) as path:
                write_anndata(str(path), read_lists(self.cells), cells, topics)
        if not self.regions_anndata.exists():
            shares = shares_of(read_lists(self.regions))
            with replacing(self.regions_anndata) as path:
                write_anndata(str(path), np.ascontiguousarray(shares.T), corpus.columns or [], topics)

    def _parameters(self, model: LDA, corpus: Corpus, seconds: float, n_threads: int) -> dict[str, Any]:
        settings = self.settings
        parameters: dict[str, Any] = {
            "backend": "mallet",
            "output_prefix": self.prefix,
            "n_topics": settings.n_topics,
            "alpha": settings.alpha,
            "alpha_by_topic": settings.alpha_by_topic,
            "eta": settings.eta,
            "eta_by_topic": settings.eta_by_topic,
            "n_threads": n_threads,
            "iterations": settings.iterations,
            "optimize_interval": settings.optimize_interval,
            "optimize_burn_in": 0,
            "topic_threshold": 0.0,
            "random_seed": settings.random_seed,
            "mallet_corpus_filename": "",
            "mallet_path": "",
            "mallet_cmd": [],
            "time": seconds,
            "trained_by": f"corpusmill {version('corpusmill')}",
            # The reader ignores further keys.
            "corpusmill": {"settings": vars(self.settings), "data": corpus.hash},
        }
        if settings.optimize_interval > 0:
            # Only this form of the file holds one prior per topic.
            learned = model._fitted().shared
            parameters |= {
                "backend": "tomotopy",
                "alpha_input": settings.alpha,
                "eta_input": settings.eta,
                "alpha": np.asarray(learned["alpha"], np.float64).tolist(),
                "eta": float(learned["beta"]),
                "tomotopy_version": "",
            }
        return parameters

    def write_statistics(self, corpus: Corpus) -> Statistics:
        """Compute the statistics of a complete bundle, write them and return them; read them if they exist."""
        if self.statistics.exists():
            return json.loads(self.statistics.read_text())
        counts = read_lists(self.regions)
        settings = self.settings
        estimator = settings.estimator()
        alpha = np.full(settings.n_topics, float(estimator.doc_topic_prior))  # type: ignore[arg-type]
        eta = float(estimator.topic_word_prior or 0)
        if settings.optimize_interval > 0:
            learned = json.loads(self.parameters.read_text())
            alpha = np.array(learned["alpha"])
            eta = learned["eta"]
        found = statistics(counts, _cell_groups(self.cells, corpus), alpha, eta)
        with replacing(self.statistics) as path:
            path.write_text(json.dumps(found) + "\n")
        return found


# --- counts ---


def _cell_shares(run: RunStore, corpus: Corpus, n_topics: int) -> Iterator[np.ndarray]:
    """Yield the share of each topic in each cell, (cells, K) float32, chunk by chunk. An empty cell has zeros."""
    step = run.step
    for index in range(len(corpus.chunks)):
        chunk = corpus.read_chunk(index)
        # Tokens and their topics are in word order; ``docs`` has the cell of each.
        cells = chunk.docs.astype(np.int64) * n_topics + run.state(step, index)["z"]
        counts = np.bincount(cells, minlength=chunk.n_documents * n_topics).reshape(-1, n_topics)
        lengths = np.maximum(np.diff(chunk.doc_ptr), 1)
        shares = (counts / lengths[:, None]).astype(np.float32)
        step_rows = max(1, GROUP_BYTES // (4 * n_topics))
        for first in range(0, len(shares), step_rows):
            yield shares[first : first + step_rows]


def region_counts(model: LDA, corpus: Corpus) -> np.ndarray:
    """Return the tokens of each region in each topic in the order of the input: (K, R) int32."""
    order = _input_positions(corpus)
    counts = word_counts(model._fitted())
    result = np.zeros((len(counts), len(corpus.columns or [])), np.int32)
    result[:, order] = counts
    return result


def _input_positions(corpus: Corpus) -> np.ndarray:
    """Return the position in the input of each word of the vocabulary: (V,) int64."""
    position = {name: column for column, name in enumerate(corpus.columns or [])}
    return np.array([position[word] for word in corpus.vocabulary["word"].to_pylist()], np.int64)


def _cell_groups(path: Path, corpus: Corpus) -> Iterator[CellGroup]:
    """Yield the cells of each chunk with their shares and regions."""
    theta = read_lists(path)
    order = _input_positions(corpus)
    n_regions = len(corpus.columns or [])
    first = 0
    for index, info in enumerate(corpus.chunks):
        chunk = corpus.read_document_order(index)
        ones = np.ones(chunk.n_tokens, np.int8)
        shape = (info.documents, n_regions)
        accessible = scipy.sparse.csr_matrix((ones, order[chunk.words], chunk.doc_ptr), shape=shape)
        yield CellGroup(theta[first : first + info.documents], accessible)
        first += info.documents


# --- files ---


def _write_lists(path: Path, name: str, blocks: Iterable[np.ndarray]) -> None:
    """Write a Parquet file with one column of lists, given in blocks (rows, length)."""
    writer = None
    with replacing(path) as temporary:
        try:
            for block in blocks:
                flat = pa.array(np.ascontiguousarray(block).reshape(-1))
                table = pa.table({name: pa.FixedSizeListArray.from_arrays(flat, block.shape[1])})
                if writer is None:
                    writer = pq.ParquetWriter(temporary, table.schema, compression="zstd")
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


def read_lists(path: Path) -> np.ndarray:
    """Return the lists of a file that has one column of lists of equal length: (rows, length)."""
    column = pq.read_table(path).column(0).combine_chunks()
    width = column.type.list_size
    return column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
