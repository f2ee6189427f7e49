"""Results are added to the file that a path leads to, and never over the changes of another program."""

import anndata
import numpy as np
import pytest
import zarr
from corpusmill.io.errors import DataError
from corpusmill.io.matrices import additions

RESULT = {"obsm/X_a": np.ones((3, 2))}


def write_cells(path):
    """Write three cells with two genes each as an AnnData file or a Zarr store."""
    cells = anndata.AnnData(np.ones((3, 2), np.float32))
    if path.suffix == ".zarr":
        cells.write_zarr(path)
    else:
        cells.write_h5ad(path)


def read_cells(path):
    return anndata.read_zarr(path) if path.suffix == ".zarr" else anndata.read_h5ad(path)


@pytest.mark.parametrize("name", ["cells.h5ad", "cells.zarr"])
def test_results_are_added_to_the_file_that_a_link_leads_to(tmp_path, name):
    original, link = tmp_path / "data" / name, tmp_path / name
    original.parent.mkdir()
    write_cells(original)
    link.symlink_to(original)
    additions.add_elements(str(link), RESULT)
    assert link.is_symlink()
    assert list(read_cells(original).obsm) == ["X_a"]
    # No copy is left over.
    assert {path.name for path in [*tmp_path.iterdir(), *original.parent.iterdir()]} == {"data", name}


def test_results_are_not_written_over_a_change_deep_in_a_zarr_store(tmp_path, monkeypatch):
    path = tmp_path / "cells.zarr"
    write_cells(path)
    check = additions.check_anndata

    def another_program_writes(root, url):
        zarr.open_group(path, mode="r+", use_consolidated=False)["X"][0, 0] = 5
        check(root, url)

    monkeypatch.setattr(additions, "check_anndata", another_program_writes)
    with pytest.raises(DataError, match="another program changed the file meanwhile; run the command again"):
        additions.add_elements(str(path), RESULT)
    assert zarr.open_group(path, mode="r")["X"][0, 0] == 5
