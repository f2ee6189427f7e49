"""Results of models in AnnData files: exactly the documented keys, in one step, never over others."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from corpusmill import LDA, NMF, RandomIndexing
from corpusmill.io.errors import DataError
from corpusmill.pipeline.cells.anndata import annotate_file
from helpers.cells import CELLS, COUNTS, GENES, write_h5ad

h5py = pytest.importorskip("h5py")

SPARSE = scipy.sparse.csr_matrix(COUNTS, dtype=np.float32)


@pytest.fixture(scope="module")
def trained():
    names = {"vocabulary": GENES}
    lda = LDA(2, max_iter=3, seeds=[["gene0"], ["gene1", "gene2"]], device="cpu").fit(SPARSE, **names)
    return lda, NMF(2, max_iter=3, device="cpu").fit(SPARSE, **names)


def contents(path):
    """Return all elements of an HDF5 file by path: arrays as lists, with their encoding."""
    found = {}

    def note(name, element):
        encoding = element.attrs.get("encoding-type"), element.attrs.get("encoding-version")
        value = np.asarray(element).tolist() if hasattr(element, "shape") else None
        found[name] = (encoding, value)

    with h5py.File(path) as file:
        file.visititems(note)
    return found


def test_a_file_receives_exactly_the_documented_keys(tmp_path, trained):
    path = write_h5ad(tmp_path / "x.h5ad")
    before = contents(path)
    for model in trained:
        annotate_file(path, model)
    after = contents(path)
    assert {name: after[name] for name in before} == before
    added = {name.split("/params")[0] for name in set(after) - set(before)}
    assert added == {
        "obsm/X_topics",
        "obsm/X_nmf",
        "varm/topics",
        "varm/NMF",
        "uns/corpusmill",
        *(f"uns/corpusmill/{name}" for name in ("topics", "nmf")),
        *(f"uns/corpusmill/{name}/{part}" for name in ("topics", "nmf") for part in ("version", "model", "history")),
        *(f"uns/corpusmill/{name}/history/epoch" for name in ("topics", "nmf")),
        "uns/corpusmill/topics/history/log_likelihood",
        "uns/corpusmill/nmf/history/error",
    }
    with h5py.File(path) as file:
        assert file["obsm/X_topics"].dtype == file["varm/NMF"].dtype == np.float32
        np.testing.assert_allclose(file["obsm/X_topics"][:].sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_allclose(file["varm/topics"][:].sum(axis=0), 1, rtol=1e-6)
        assert (file["varm/topics"][3] == 0).all()  # gene3 never occurs
        np.testing.assert_array_equal(file["varm/NMF"][:], trained[1].components_.T)
        np.testing.assert_array_equal(file["obsm/X_nmf"][:], trained[1].transform(SPARSE))


def test_existing_results_are_replaced_only_on_request(tmp_path, trained):
    path = write_h5ad(tmp_path / "x.h5ad")
    annotate_file(path, trained[0])
    before = Path(path).read_bytes()
    with pytest.raises(DataError, match=r"x\.h5ad: obsm/X_topics exists already; replace it with --replace"):
        annotate_file(path, trained[0])
    assert Path(path).read_bytes() == before
    annotate_file(path, trained[0], key="again")
    annotate_file(path, trained[0], replace=True)
    assert {"obsm/X_topics", "obsm/X_again", "varm/again", "uns/corpusmill/again"} <= set(contents(path))


def test_files_with_other_cells_or_genes_are_refused(tmp_path, trained):
    path = write_h5ad(tmp_path / "x.h5ad")
    other = write_h5ad(tmp_path / "y.h5ad", cells=CELLS[::-1])
    with pytest.raises(DataError, match="7 cells, which are not the 7 cells of"):
        annotate_file(path, trained[0], other)
    unnamed = NMF(2, max_iter=2, device="cpu").fit(SPARSE)
    expected = pytest.warns(UserWarning, match="X has feature names, but NMF was fitted without feature names")
    with expected, pytest.raises(DataError, match=r"none of the 5 genes.*vocabulary=adata\.var_names"):
        annotate_file(path, unnamed)
    with pytest.raises(ValueError, match="RandomIndexing has no topics"):
        annotate_file(path, RandomIndexing(vector_size=64))


#: Adds results in child processes that kill themselves at their first, second, third and so on file operation. Prints
#: after which of them the file was unchanged, complete or neither.
KILLS = """
import hashlib, json, os, shutil, signal, sys
from pathlib import Path
import numpy as np
import corpusmill.io.matrices.additions as additions
import h5py, zarr

path = Path(sys.argv[1])
EVENTS = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "shutil.copyfile", "ctypes.dlsym", "shutil.rmtree"}

def digest():
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return hashlib.sha256(b"".join(p.name.encode() + p.read_bytes() for p in files)).hexdigest()

def add(kill_at):
    child = os.fork()
    if not child:
        seen = [0]
        def count(event, arguments):
            if event in EVENTS:
                seen[0] += 1
                if seen[0] == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(count)
        additions.add_elements(str(path), {"obsm/X_a": np.ones((7, 2)), "uns/a": {"text": "b", "n": 3}}, True)
        os._exit(0)
    return os.waitpid(child, 0)[1]

backup = path.with_name("backup")
(shutil.copytree if path.is_dir() else shutil.copy)(path, backup)
before = digest()
assert add(0) == 0
complete = digest()
states = []
kill_at = 1
while True:
    if path.is_dir():
        shutil.rmtree(path)
    (shutil.copytree if backup.is_dir() else shutil.copy)(backup, path)
    status = add(kill_at)
    states.append({before: "unchanged", complete: "complete"}.get(digest(), "broken"))
    if status == 0:
        break
    kill_at += 1 if kill_at < 12 else int(sys.argv[2])
left = [p.name for p in path.parent.iterdir() if p not in (path, backup)]
print(json.dumps({"states": states, "left": left}))
"""


def states_after_kills(path, step):
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLS, str(path), str(step)], capture_output=True, text=True, timeout=250
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["left"] == []
    assert found["states"][-1] == "complete"
    return found["states"]


@pytest.mark.slow
def test_a_killed_process_leaves_the_file_unchanged_or_complete(tmp_path):
    states = states_after_kills(write_h5ad(tmp_path / "x.h5ad"), 1)
    assert set(states) == {"unchanged", "complete"}
    assert states == sorted(states, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_killed_process_leaves_a_zarr_store_unchanged_or_complete(tmp_path, zarr_format):
    import zarr

    path = tmp_path / "x.zarr"
    with h5py.File(write_h5ad(tmp_path / "x.h5ad")) as file:
        root = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
        copy_group(file, root)
    (tmp_path / "x.h5ad").unlink()
    states = states_after_kills(path, 25)
    assert set(states) == {"unchanged", "complete"}


def copy_group(source, target):
    """Copy an HDF5 group into a Zarr group."""
    target.attrs.update({name: _plain(value) for name, value in source.attrs.items()})
    for name, element in source.items():
        if hasattr(element, "shape"):
            values = element.asstr()[:] if element.dtype.kind == "O" else element[:]
            if values.dtype.kind == "O":
                array = target.create_array(name, shape=values.shape, dtype=str)
                array[:] = values.astype(np.dtypes.StringDType())
            else:
                array = target.create_array(name, data=values)
            array.attrs.update({key: _plain(value) for key, value in element.attrs.items()})
        else:
            copy_group(element, target.create_group(name))


def _plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


# --- the library anndata reads it ---


@pytest.mark.filterwarnings("ignore:.*zarr v[23]", "ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize("kind", ["h5ad", 2, 3])
def test_anndata_reads_the_results(tmp_path, trained, kind):
    anndata = pytest.importorskip("anndata")
    from corpusmill.pipeline.cells.anndata import annotate

    adata = anndata.read_h5ad(write_h5ad(tmp_path / "x.h5ad", layers={"counts": SPARSE}))
    path = str(tmp_path / "x.h5ad")
    if kind != "h5ad":
        path = str(tmp_path / "x.zarr")
        with anndata.settings.override(zarr_write_format=kind):
            adata.write_zarr(path)
    annotate_file(path, trained[0])
    found = anndata.read_h5ad(path) if kind == "h5ad" else anndata.read_zarr(path)
    annotate(adata, trained[0], layer="counts")
    np.testing.assert_array_equal(found.obsm["X_topics"], adata.obsm["X_topics"])
    np.testing.assert_array_equal(found.varm["topics"], adata.varm["topics"])
    assert found.uns["corpusmill"]["topics"]["params"]["max_iter"] == 3
    assert found.uns["corpusmill"]["topics"]["params"]["seeds"]["1"].tolist() == ["gene1", "gene2"]
    assert found.uns["corpusmill"]["topics"]["model"] == adata.uns["corpusmill"]["topics"]["model"]
    found.write_h5ad(tmp_path / "again.h5ad")


def test_fit_fills_the_object(tmp_path):
    anndata = pytest.importorskip("anndata")
    from corpusmill.pipeline.cells.anndata import fit

    adata = anndata.read_h5ad(write_h5ad(tmp_path / "x.h5ad", COUNTS / 4, layers={"counts": SPARSE}))
    fit(adata, LDA(2, max_iter=2, device="cpu"), layer="counts")
    fit(adata, NMF(2, max_iter=2, device="cpu"))
    assert adata.obsm["X_topics"].shape == adata.obsm["X_nmf"].shape == (7, 2)
    with pytest.raises(DataError, match=r"adata has obsm\['X_nmf'\], varm\['NMF'\], uns\['corpusmill'\]\['nmf'\] alr"):
        fit(adata, NMF(2, max_iter=2))
    with pytest.raises(DataError, match="adata has no layer 'other'; choose one of 'X', 'counts'"):
        fit(adata, NMF(2, max_iter=2), layer="other", key="other")
    for model in (LDA(2), NMF(2)):
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\) \(shape=\(0, 5\)\)"):
            fit(adata[:0], model, layer="counts", replace=True)
    with pytest.raises(TypeError, match=r"adata is '.*x\.h5ad': pass an AnnData object, .* annotate_file"):
        fit(str(tmp_path / "x.h5ad"), NMF(2))


def test_rows_in_a_data_frame_have_the_names_of_the_cells(tmp_path):
    anndata = pytest.importorskip("anndata")
    pytest.importorskip("pandas")
    path = write_h5ad(tmp_path / "x.h5ad", SPARSE)
    adata = anndata.read_h5ad(path)
    for model in (LDA(2, max_iter=2), NMF(2, max_iter=2)):
        for cells in (adata, path):
            rows = model.set_output(transform="pandas").fit_transform(cells)
            assert rows.index.tolist() == adata.obs_names.tolist()
