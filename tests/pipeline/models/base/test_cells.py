"""Estimators take AnnData, its files, its backed and lazy matrices, and names for the columns of any matrix."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill import LDA, NMF, ingest
from corpusmill.io.data import Kind, recognise
from corpusmill.io.errors import DataError
from corpusmill.io.stores.matrix import Matrix, write_matrix
from helpers.cells import CELLS, COUNTS, GENES, write_h5ad

SPARSE = scipy.sparse.csr_matrix(COUNTS, dtype=np.float32)


class Annotated:
    """An object with the attributes of an AnnData."""

    def __init__(self, X, obs_names=CELLS, var_names=GENES, layers=None):
        self.X = X
        self.obs_names = obs_names
        self.var_names = var_names
        self.layers = layers or {}
        self.raw = None


def models():
    return [LDA(2, max_iter=3, device="cpu"), NMF(2, max_iter=3, device="cpu")]


def gives_the_components_of(expected, model, data, **options):
    np.testing.assert_array_equal(model.fit(data, **options).components_, expected.components_)


def test_an_annotated_matrix_names_the_columns():
    for model, plain in zip(models(), models(), strict=True):
        gives_the_components_of(plain.fit(SPARSE), model, Annotated(SPARSE))
        assert model.feature_names_in_.tolist() == GENES
        assert {entry["word"] for topic in model.topics(4) for entry in topic["words"]} <= set(GENES)
        assert model.n_features_in_ == 5
        assert np.asarray(model.transform(Annotated(COUNTS))).shape == (7, 2)


def test_a_file_gives_the_model_of_its_matrix(tmp_path):
    pytest.importorskip("h5py")
    for form in (SPARSE, SPARSE.tocsc(), COUNTS):
        path = write_h5ad(tmp_path / "x.h5ad", form)
        for model, plain in zip(models(), models(), strict=True):
            data = SPARSE if scipy.sparse.issparse(form) else COUNTS
            gives_the_components_of(plain.fit(data), model, path)
            np.testing.assert_array_equal(model.transform(path), plain.transform(data))


def test_a_corpus_of_a_file_keeps_empty_columns_and_the_order_of_the_genes(tmp_path):
    pytest.importorskip("h5py")
    corpus = ingest(write_h5ad(tmp_path / "x.h5ad"), str(tmp_path / "corpus"))
    assert corpus.n_documents == 7
    assert corpus.columns == GENES
    assert corpus.n_words == 4  # gene3 never occurs
    model = LDA(2, max_iter=3, device="cpu")
    gives_the_components_of(LDA(2, max_iter=3, device="cpu").fit(Annotated(SPARSE)), model, corpus)
    assert model.components_.shape == (2, 5)
    nmf = NMF(2, max_iter=3, device="cpu").fit(corpus)
    np.testing.assert_array_equal(nmf.transform(Annotated(COUNTS)), nmf.transform(corpus))


def test_vocabulary_names_the_columns_of_any_matrix():
    for data in (COUNTS, SPARSE, COUNTS.tolist()):
        for model in models():
            model.fit(data, vocabulary=np.array(GENES))
            assert {entry["word"] for topic in model.topics(4) for entry in topic["words"]} <= set(GENES)
            model.transform(data)


def test_a_vocabulary_that_cannot_name_the_columns_is_refused():
    for model in models():
        with pytest.raises(ValueError, match="vocabulary has 4 names, but X has 5 columns"):
            model.fit(SPARSE, vocabulary=GENES[:4])
        with pytest.raises(ValueError, match="'a' occurs a second time"):
            model.fit(SPARSE, vocabulary=list("abcda"))
        # The order of CountVectorizer.vocabulary_ is not that of the columns.
        with pytest.raises(ValueError, match="vocabulary is a dict: pass a list of words, in the order of the columns"):
            model.fit(SPARSE, vocabulary={gene: column for column, gene in enumerate(GENES)})
        with pytest.raises(ValueError, match="vocabulary names the columns of a matrix, but X is no matrix"):
            model.fit([["a", "b"], ["b"]], vocabulary=GENES)


def test_other_names_are_refused_after_fit():
    model = LDA(2, max_iter=2, device="cpu").fit(Annotated(SPARSE))
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(Annotated(SPARSE, var_names=GENES[::-1]))


def test_continuing_with_other_genes_keeps_the_genes_of_both(tmp_path):
    pytest.importorskip("h5py")
    first = ingest(write_h5ad(tmp_path / "x.h5ad"), str(tmp_path / "first"))
    others = ["gene0", "gene1", "new2", "new3", "new4"]
    second = ingest(write_h5ad(tmp_path / "y.h5ad", genes=others), str(tmp_path / "second"))
    model = LDA(2, max_iter=3, device="cpu").fit(first).partial_fit(second)
    assert set(model.words_) == {"gene0", "gene1", "gene2", "gene4", "new2", "new4"}
    assert model.components_.shape == (2, 6)


def test_duplicate_names_and_missing_layers_are_refused():
    for model in models():
        with pytest.raises(DataError, match=r"adata, X, var_names: the name 'a' occurs a second time at position 1"):
            model.fit(Annotated(SPARSE, var_names=list("aabcd")))
        with pytest.raises(DataError, match=r"adata\.X is None; choose one of its layers: 'counts'"):
            model.fit(Annotated(None, layers={"counts": SPARSE}))


def test_negative_and_fractional_entries_are_refused():
    layers = {"counts": SPARSE}
    with pytest.raises(DataError, match=r"row 0 \('cell0'\), .*normalised; did you mean layer='counts'"):
        LDA(2, max_iter=2).fit(Annotated(SPARSE / 4, layers=layers))
    for model in models():
        with pytest.raises(DataError, match=r"column 0 \('gene0'\) is -1\.0: the matrix is scaled"):
            model.fit(Annotated(COUNTS - 3.0, layers=layers))


def test_the_matrix_of_the_caller_is_not_changed():
    twice = scipy.sparse.csr_matrix((np.ones(4), [1, 1, 0, 2], [0, 2, 4]), shape=(2, 3))
    before = twice.data.copy(), twice.indices.copy()
    LDA(2, max_iter=2, device="cpu").fit(twice)
    np.testing.assert_array_equal(twice.data, before[0])
    np.testing.assert_array_equal(twice.indices, before[1])


def test_a_matrix_store_keeps_names(tmp_path):
    matrix = write_matrix(str(tmp_path / "m"), SPARSE, columns=GENES, rows=CELLS)
    assert Matrix(matrix.url).columns == GENES
    assert matrix.keys.to_pylist() == CELLS
    model = NMF(2, max_iter=3, device="cpu").fit(matrix, run=str(tmp_path / "run"))
    assert model.feature_names_in_.tolist() == GENES
    again = NMF.from_run(str(tmp_path / "run"))
    assert again.topic_words(3) == model.topic_words(3)
    assert set(again.topic_words(5)[0]) == set(GENES)
    with pytest.raises(DataError, match="the matrix has 5 columns, but 2 names for them"):
        write_matrix(str(tmp_path / "n"), SPARSE, columns=["a", "b"])


# --- objects of the library anndata ---


@pytest.fixture
def adata(tmp_path):
    anndata = pytest.importorskip("anndata")
    return anndata.read_h5ad(write_h5ad(tmp_path / "x.h5ad"))


def test_anndata_backed_and_lazy_matrices_give_the_same_model(adata, tmp_path):
    anndata = pytest.importorskip("anndata")
    adata.layers["by_column"] = adata.X.tocsc()
    path = str(tmp_path / "y.h5ad")
    adata.write_h5ad(path)
    backed = anndata.read_h5ad(path, backed="r")
    lazy = anndata.experimental.read_lazy(path)
    inputs = [adata, backed, backed.X, backed.layers["by_column"], lazy, lazy.X, lazy.layers["by_column"]]
    inputs.append(lazy.X.rechunk((3, 2)))
    for data in inputs:
        assert recognise(data).kind is Kind.MATRIX
    expected = NMF(2, max_iter=3, device="cpu").fit(SPARSE)
    counted = LDA(2, max_iter=3, device="cpu").fit(SPARSE)
    for data in inputs[:-1]:
        gives_the_components_of(expected, NMF(2, max_iter=3, device="cpu"), data)
        gives_the_components_of(counted, LDA(2, max_iter=3, device="cpu"), data)
    gives_the_components_of(expected, NMF(2, max_iter=3, device="cpu"), inputs[-1])


@pytest.mark.filterwarnings("ignore:.*zarr v[23]", "ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_stores_give_the_model_of_their_matrix(adata, tmp_path, zarr_format):
    anndata = pytest.importorskip("anndata")
    path = str(tmp_path / "x.zarr")
    with anndata.settings.override(zarr_write_format=zarr_format):
        adata.write_zarr(path)
    for model, plain in zip(models(), models(), strict=True):
        gives_the_components_of(plain.fit(SPARSE), model, path)


@pytest.mark.slow
def test_a_lazy_matrix_trains_on_a_cluster(adata, tmp_path, cluster_of):
    anndata = pytest.importorskip("anndata")
    path = str(tmp_path / "y.h5ad")
    adata.write_h5ad(path)
    client = cluster_of(2)
    lazy = anndata.experimental.read_lazy(path)
    backed = anndata.read_h5ad(path, backed="r")
    for data in (lazy.X, lazy, backed, path):
        for model, plain in zip(models(), models(), strict=True):
            gives_the_components_of(plain.fit(SPARSE), model, data, client=client)


def test_dask_arrays_give_the_model_of_their_matrix():
    array = pytest.importorskip("dask.array").from_array(COUNTS.astype(np.float32), chunks=(7, 2))
    for model, plain in zip(models(), models(), strict=True):
        gives_the_components_of(plain.fit(COUNTS.astype(np.float32)), model, array)
