"""Files of single-cell programs are read as documents: cells are documents, genes are words."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill.io.errors import DataError
from corpusmill.io.matrices.hierarchies import is_zarr, open_hdf5
from corpusmill.io.matrices.memory import RowsInMemory
from corpusmill.io.matrices.names import make_names_unique
from helpers.cells import (
    CELLS,
    COUNTS,
    GENES,
    counts_of,
    write_h5ad,
    write_market,
    write_names,
    write_table,
    write_tenx,
    write_tenx_folder,
)
from helpers.sources import read

h5py = pytest.importorskip("h5py")


def check(source, expected=COUNTS, genes=GENES, cells=CELLS, **options):
    keys, documents = read(source, **options)
    assert keys == cells
    np.testing.assert_array_equal(counts_of(keys, documents, genes), expected)


FORMS = {
    "csr": scipy.sparse.csr_matrix(COUNTS, dtype=np.float32),
    "csc": scipy.sparse.csc_matrix(COUNTS, dtype=np.float64),
    "integers": scipy.sparse.csr_matrix(COUNTS, dtype=np.int32),
    "dense": COUNTS.astype(np.float32),
}


@pytest.mark.parametrize("form", FORMS)
def test_anndata_is_read_in_every_form(tmp_path, form):
    check(write_h5ad(tmp_path / "x.h5ad", FORMS[form]))


def test_layers_and_the_raw_matrix_are_read(tmp_path):
    path = write_h5ad(tmp_path / "x.h5ad", COUNTS / 2, {"counts": FORMS["csc"]}, raw=FORMS["csr"])
    check(path, layer="layers/counts")
    check(path, layer="raw/X", genes=[f"raw{column}" for column in range(5)])
    with pytest.raises(DataError, match=r"no layer 'counts'; choose one of 'X', 'layers/counts', 'raw/X'"):
        read(path, layer="counts")


def test_categorical_and_nullable_names_are_read(tmp_path):
    path = write_h5ad(tmp_path / "x.h5ad")
    with h5py.File(path, "a") as file:
        del file["var/_index"]
        index = file["var"].create_group("_index")
        index.attrs["encoding-type"] = "categorical"
        index["categories"] = np.array(GENES[::-1], object)
        index["codes"] = np.arange(5)[::-1]
        del file["obs/_index"]
        index = file["obs"].create_group("_index")
        index.attrs["encoding-type"] = "nullable-string-array"
        index["values"] = np.array(CELLS, object)
        index["mask"] = np.zeros(7, bool)
    check(path)


@pytest.mark.parametrize("version", [2, 3])
def test_10x_hdf5_is_read(tmp_path, version):
    check(write_tenx(tmp_path / "x.h5", version))


@pytest.mark.parametrize("version", [2, 3])
def test_10x_folders_are_read(tmp_path, version):
    check(write_tenx_folder(tmp_path / "filtered", version))


def test_names_in_a_10x_folder_that_are_not_utf8_are_refused(tmp_path):
    folder = write_tenx_folder(tmp_path / "filtered", 2)
    with (tmp_path / "filtered" / "genes.tsv").open("ab") as file:
        file.write(b"\ngene\xe9")
    with pytest.raises(DataError, match=r"genes\.tsv, line 6: invalid UTF-8 at byte 4; convert the file"):
        check(folder)


def test_names_and_types_of_10x_features(tmp_path):
    path = write_tenx(tmp_path / "x.h5")
    check(path, genes=["alpha", "beta", "alpha-1", "gamma", "delta"], names="name")
    check(path, COUNTS[:, 3:], GENES[3:], feature_type="Peaks")
    check(write_tenx_folder(tmp_path / "folder"), COUNTS[:, :3], GENES[:3], feature_type="Gene Expression")
    with pytest.raises(DataError, match="no feature of type 'peaks'; choose one of 'Gene Expression', 'Peaks'"):
        read(path, feature_type="peaks")


def test_equal_names_are_numbered_as_anndata_numbers_them():
    assert make_names_unique(["a", "b", "a", "a-1", "a"]) == ["a", "b", "a-2", "a-1", "a-3"]


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("ending", ["mtx", "mtx.gz"])
def test_matrix_market_of_genes_by_cells_is_transposed(tmp_path, order, ending):
    path = write_market(tmp_path / f"x.{ending}", COUNTS.T, order)
    names = write_names(tmp_path / "genes.txt", GENES)
    keys = write_names(tmp_path / "cells.txt", CELLS)
    check(path, transpose=True, vocabulary_file=names, keys_file=keys)


def test_npz_is_read_and_transposed(tmp_path):
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.csr_matrix(COUNTS.T))
    options = {"vocabulary_file": write_names(tmp_path / "genes.txt", GENES)}
    keys = [f"x.npz:{row}" for row in range(1, 8)]
    check(str(tmp_path / "x.npz"), transpose=True, cells=keys, **options)


def test_binarize_reads_every_count_above_0_as_1(tmp_path):
    expected = COUNTS > 0
    check(write_h5ad(tmp_path / "x.h5ad", FORMS["dense"] / 2), expected, binarize=True)
    check(write_tenx_folder(tmp_path / "folder"), expected, binarize=True)
    names = {"vocabulary_file": write_names(tmp_path / "genes.txt", GENES)}
    cells = [f"x.mtx:{row}" for row in range(1, 8)]
    check(write_market(tmp_path / "x.mtx", COUNTS, "row"), expected, cells=cells, binarize=True, **names)
    (tmp_path / "x.svm").write_text("1 1:3 2:1\n")
    assert read(str(tmp_path / "x.svm"), binarize=True)[1] == [["1", "2"]]


def test_explicit_zeros_are_no_tokens(tmp_path):
    matrix = scipy.sparse.csr_matrix(COUNTS, dtype=np.float32)
    matrix.data[0] = 0
    expected = COUNTS.copy()
    expected[0, 0] = 0
    check(write_h5ad(tmp_path / "x.h5ad", matrix), expected)


def test_columns_in_any_order_are_sorted(tmp_path):
    matrix = scipy.sparse.csr_matrix(COUNTS, dtype=np.float32)
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        matrix.indices[start:stop] = matrix.indices[start:stop][::-1].copy()
        matrix.data[start:stop] = matrix.data[start:stop][::-1].copy()
    check(write_h5ad(tmp_path / "x.h5ad", matrix))


# --- what cannot be read ---


def changed(path, **arrays):
    """Replace arrays of X and return the path."""
    with h5py.File(path, "a") as file:
        for name, array in arrays.items():
            del file[f"X/{name}"]
            file[f"X/{name}"] = array
    return path


def refuses(path, match, **options):
    with pytest.raises(DataError, match=match):
        read(path, **options)


def test_fractions_and_negative_entries_are_refused(tmp_path):
    layers = {"counts": FORMS["csr"]}
    path = write_h5ad(tmp_path / "x.h5ad", scipy.sparse.csr_matrix(COUNTS / 4), layers)
    place = r"x\.h5ad, X: row 0 \('cell0'\), column 0 \('gene0'\) is "
    refuses(path, place + r"0\.5, which is not a count .* normalised; did you mean layer=layers/counts\?")
    path = write_h5ad(tmp_path / "x.h5ad", (COUNTS - 3).astype(float), layers)
    refuses(path, place + r"-1\.0: the matrix is scaled or centred; did you mean layer=layers/counts\?")
    path = write_h5ad(tmp_path / "x.h5ad", np.full(COUNTS.shape, np.nan))
    refuses(path, place + "nan: entries must be finite; pass the matrix of counts")


def test_duplicate_entries_are_refused(tmp_path):
    path = changed(write_h5ad(tmp_path / "x.h5ad"), indices=np.array([2, 2, 1, 4, 0, 1, 2, 4, 1, 0, 4, 2, 4]))
    refuses(path, r"row 0 \('cell0'\) has two entries in column 2 \('gene2'\); add them up with sum_duplicates")
    twice = scipy.sparse.csc_matrix(COUNTS, dtype=float)
    path = changed(write_h5ad(tmp_path / "x.h5ad", twice), indices=np.zeros(twice.nnz, int))
    refuses(path, r"row 0 \('cell0'\) has two entries in column 0 \('gene0'\)")


@pytest.mark.parametrize(
    "indptr, match",
    [
        ([0, 2, 4, 4, 8, 9, 11], "it has 7 entries, not 8"),
        ([1, 2, 4, 4, 8, 9, 11, 13], "it does not ascend from 0"),
        ([0, 2, 4, 3, 8, 9, 11, 13], "it does not ascend from 0"),
        ([0, 2, 4, 4, 8, 9, 11, 14], "it ends at 14, but there are 13 entries and 13 indices"),
    ],
)
def test_an_inconsistent_indptr_is_refused(tmp_path, indptr, match):
    path = changed(write_h5ad(tmp_path / "x.h5ad"), indptr=np.array(indptr))
    refuses(path, f"x.h5ad, X: indptr is inconsistent: {match}; write the matrix again")


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_an_index_out_of_range_is_refused(tmp_path, form):
    matrix = FORMS[form].astype(float)
    path = changed(write_h5ad(tmp_path / "x.h5ad", matrix), indices=np.full(matrix.nnz, 99))
    refuses(path, r"x\.h5ad, X: an index is not in 0\.\.[46]")


def test_duplicate_names_are_refused(tmp_path):
    path = write_h5ad(tmp_path / "x.h5ad", genes=["a", "b", "a", "c", "d"])
    refuses(path, r"x\.h5ad, var: the name 'a' occurs a second time at position 2; call adata\.var_names_make_unique")
    path = write_h5ad(tmp_path / "x.h5ad", cells=["a"] * 7)
    refuses(path, r"x\.h5ad, obs: the name 'a' occurs a second time at position 1; call adata\.obs_names_make_unique")


def test_files_older_than_anndata_0_8_are_refused(tmp_path):
    path = str(tmp_path / "x.h5ad")
    with h5py.File(path, "w") as file:
        file["X"] = COUNTS
        write_table(file, "obs", CELLS)
    refuses(path, r"x\.h5ad: written by anndata older than 0\.8 \(2022\); open and write it once")


def test_other_files_are_refused(tmp_path):
    (tmp_path / "x.h5ad").write_text("no HDF5")
    refuses(str(tmp_path / "x.h5ad"), r"x\.h5ad: not an HDF5 file, or a damaged one")
    with h5py.File(tmp_path / "y.h5", "w"):
        pass
    refuses(str(tmp_path / "y.h5"), r"y\.h5: not a feature-barcode matrix of 10x Genomics")
    refuses(str(tmp_path / "y.h5"), r"y\.h5: no AnnData here", format="h5ad")


def test_a_damaged_block_of_an_hdf5_file_is_refused(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        numbers = file.create_dataset("numbers", data=np.arange(1000), chunks=(1000,), compression="gzip")
        place = numbers.id.get_chunk_info(0).byte_offset
    with (tmp_path / "x.h5").open("r+b") as stream:
        stream.seek(place)
        stream.write(bytes(50))
    with pytest.raises(DataError, match=r"x\.h5: damaged \(.*\); fetch the file again"):
        with open_hdf5(str(tmp_path / "x.h5")) as root:
            root["numbers"][:]


@pytest.mark.parametrize("name", ["x.zarr", "x.ZARR/", "x.h5ad"])
def test_a_zarr_store_is_recognised_by_its_name(name):
    assert is_zarr(name) is ("zarr" in name.lower())


def test_a_bad_entry_of_a_matrix_without_names_is_named_by_its_numbers():
    rows = RowsInMemory(np.array([[1, 2], [3, -4]]), None, None, "matrix")
    assert (rows.name_of_row(1), rows.name_of_column(0)) == ("row 1", "column 0")


def test_a_wrong_number_of_names_is_refused(tmp_path):
    path = write_market(tmp_path / "x.mtx", COUNTS.T)
    names = write_names(tmp_path / "genes.txt", GENES[1:])
    refuses(path, "5 columns, but 4 names of columns; give one for each", transpose=True, vocabulary_file=names)
    path = write_h5ad(tmp_path / "x.h5ad", cells=CELLS[:5])
    refuses(path, "x.h5ad, X: 7 rows, but 5 names of rows; give one for each")


@pytest.mark.parametrize(
    "line, match",
    [
        ("6 1 1", "line 3: the row 6 is not in 1..5"),
        ("1 8 1", "the column 8 is not in 1..7"),
        ("1 1 -1", "is negative"),
    ],
)
def test_bad_lines_of_a_transposed_matrix_are_refused(tmp_path, line, match):
    path = tmp_path / "x.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate integer general\n5 7 1\n{line}\n")
    refuses(str(path), match, transpose=True)


def test_an_option_of_another_format_is_refused(tmp_path):
    path = write_h5ad(tmp_path / "x.h5ad")
    with pytest.raises(ValueError, match=r"transpose applies to matrixmarket, npz, but .* is h5ad"):
        read(path, transpose=True)
    with pytest.raises(ValueError, match="names='gene' is not known: choose one of None, id, name"):
        read(path, names="gene")
