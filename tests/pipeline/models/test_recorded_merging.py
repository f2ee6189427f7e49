"""Models of many chunks, whose deltas are merged, keep the arrays in ``recorded_merging.npz`` on any number of workers.

`recorded.arrays` says how arrays of different machines are compared. After a deliberate change of results, record them
again with ``PYTHONPATH=tests python tests/pipeline/models/test_recorded_merging.py``.
"""

import tempfile
from pathlib import Path

import pytest
from recorded.arrays import assert_as_recorded, record, same_bytes
from recorded.cases import CASES, train, write_data

RECORDED = Path(__file__).with_name("recorded_merging.npz")
# Node2Vec warns that it takes documents for walks, which is meant here.
pytestmark = pytest.mark.filterwarnings("ignore:.*Node2Vec takes each document")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a function from the name of a case to the arrays of its model, trained in this process."""
    folder = tmp_path_factory.mktemp("recorded")
    write_data(folder / "data")
    models = {}

    def arrays_of(case, **options):
        if options:
            return train(case, folder / "data", folder / "runs" / "workers" / case, **options)
        if case not in models:
            models[case] = train(case, folder / "data", folder / "runs" / "process" / case)
        return models[case]

    return arrays_of


@pytest.mark.parametrize("case", CASES)
def test_merging_gives_the_recorded_arrays(case, trained):
    assert_as_recorded(RECORDED, case, trained(case))


# `test_contract.py` has the same with one case of each model for `make test`.
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_three_workers_merge_to_the_same_bytes(case, trained, cluster_of):
    found = trained(case, client=cluster_of(3), dashboard=False)
    expected = trained(case)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert same_bytes(found[name], array), name


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder, "data"))
        record(RECORDED, {case: train(case, Path(folder, "data"), Path(folder, case)) for case in CASES})
