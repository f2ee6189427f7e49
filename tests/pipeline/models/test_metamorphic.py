"""Changes of the input that must not change a model; one invariant per test.

`test_contract` has others: the number of workers, and a run that is resumed after each of its epochs. The tests of
random indexing have those of merging and forgetting.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from corpusmill import LDA, NMF, Node2Vec, RandomIndexing, Word2Vec, ingest
from corpusmill.kernels.simd import tiles
from distributed import Client, LocalCluster
from helpers import small_kernels
from helpers.documents import BOATS_AND_BREAD
from helpers.models import bits
from helpers.narrow_registers import NARROW

# Node2Vec warns that it takes documents for walks, which is meant here.
pytestmark = pytest.mark.filterwarnings("ignore:.*Node2Vec takes each document")

DOCUMENTS = [text.split() for text in BOATS_AND_BREAD]
ESTIMATORS = {
    "lda": lambda: LDA(2, max_iter=3),
    "nmf": lambda: NMF(2, max_iter=3, tol=0),
    "word2vec": lambda: Word2Vec(vector_size=8, min_count=1, epochs=2, sample=0, n_blocks=2),
    "node2vec": lambda: Node2Vec(vector_size=8, epochs=2),
    "random-indexing": lambda: RandomIndexing(vector_size=64, seed_length=4),
}
#: Largest relative difference of floating-point numbers that were summed in another order.
TOLERANCE = 1e-4
#: The same for one kernel whose sums run in vectors of another width.
WIDTH_TOLERANCE = 1e-5


def write_files(folder, cuts):
    """Write the documents as files of lines: cut before each of these documents."""
    folder.mkdir()
    bounds = [0, *cuts, len(BOATS_AND_BREAD)]
    for number, (first, stop) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        (folder / f"{number:02d}.txt").write_text("".join(f"{text}\n" for text in BOATS_AND_BREAD[first:stop]))
    return str(folder / "*.txt")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_files_that_are_cut_elsewhere_give_the_same_bits(kind, tmp_path):
    corpora = []
    for name, cuts in (("one", []), ("three", [1, 17])):
        corpora.append(ingest(write_files(tmp_path / name, cuts), str(tmp_path / f"{name}-corpus")))
    one, three = (bits(ESTIMATORS[kind]().fit(corpus)) for corpus in corpora)
    assert one == three


def by_word(model):
    """Return the sums of each word."""
    return dict(zip(model.words_, model.model_.block(0)["sums"].tolist(), strict=True))


def test_chunks_of_another_size_give_the_same_sums_of_random_indexing(tmp_path):
    found = []
    for tokens in (20, 1000):
        corpus = ingest(DOCUMENTS, str(tmp_path / str(tokens)), chunk_tokens=tokens)
        found.append(by_word(ESTIMATORS["random-indexing"]().fit(corpus)))
    assert found[0] == found[1]


def test_chunks_of_another_size_give_the_same_topics_of_nmf(tmp_path):
    found = []
    for tokens in (20, 1000):
        corpus = ingest(DOCUMENTS, str(tmp_path / str(tokens)), chunk_tokens=tokens)
        found.append(NMF(2, max_iter=3, tol=0, init="nndsvda").fit(corpus).components_)
    np.testing.assert_allclose(found[0], found[1], rtol=TOLERANCE, atol=1e-6)


def permuted():
    """Return a permutation of the documents."""
    return np.random.default_rng(1).permutation(len(DOCUMENTS))


def test_permuted_documents_give_the_same_sums_of_random_indexing():
    model = ESTIMATORS["random-indexing"]().fit([DOCUMENTS[row] for row in permuted()])
    assert by_word(model) == by_word(ESTIMATORS["random-indexing"]().fit(DOCUMENTS))


def test_permuted_rows_give_the_same_topics_of_nmf():
    counts = np.random.default_rng(2).poisson(1.0, (30, 12)).astype(float)
    order = np.random.default_rng(3).permutation(len(counts))
    models = [NMF(3, max_iter=5, tol=0, init="nndsvda").fit(matrix) for matrix in (counts, counts[order])]
    np.testing.assert_allclose(models[0].components_, models[1].components_, rtol=TOLERANCE, atol=1e-5)


@pytest.mark.parametrize("kind", ["nmf", "word2vec", "random-indexing"])
def test_permuted_documents_get_the_same_rows(kind):
    model = ESTIMATORS[kind]().fit(DOCUMENTS)
    order = permuted()
    rows = model.transform([DOCUMENTS[row] for row in order])
    np.testing.assert_allclose(rows, model.transform(DOCUMENTS)[order], rtol=TOLERANCE, atol=1e-6)


def test_a_document_that_is_alone_gets_the_same_row_of_lda_as_among_others():
    model = ESTIMATORS["lda"]().fit(DOCUMENTS)
    np.testing.assert_allclose(model.transform(DOCUMENTS[:1]), model.transform(DOCUMENTS)[:1], rtol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.skipif(tiles.BITS < 512, reason="a processor without AVX-512 has no other width to compare with")
def test_vectors_of_another_width_give_nearly_the_same_numbers(tmp_path):
    out = tmp_path / "results.npz"
    subprocess.run([sys.executable, small_kernels.__file__, out], check=True, env=os.environ | NARROW[256])
    found = np.load(out)
    for name, expected in small_kernels.results().items():
        np.testing.assert_allclose(found[name], expected, rtol=WIDTH_TOLERANCE, atol=1e-6, err_msg=name)


@pytest.fixture(scope="module")
def eight_workers():
    """Yield a client of eight workers, which are threads of this process."""
    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with LocalCluster(n_workers=8, **options) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_eight_workers_give_the_same_bits_as_one_process(kind, eight_workers, tmp_path):
    corpus = ingest(DOCUMENTS, str(tmp_path / "corpus"), chunk_tokens=20)
    assert len(corpus.chunks) >= 8
    one = ESTIMATORS[kind]().fit(corpus)
    eight = ESTIMATORS[kind]().fit(corpus, client=eight_workers)
    assert bits(one) == bits(eight)
