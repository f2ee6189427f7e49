"""A grid of cells: every cell once per pass, blocks in a fixed order, and the same bits wherever it runs."""

import itertools
from dataclasses import replace

import pytest
from corpusmill.pipeline.engine import plan
from corpusmill.pipeline.engine.algorithm import Needs
from corpusmill.pipeline.engine.epoch import SWEEP_SHARE, Training, train
from corpusmill.pipeline.engine.events import CellsTrained, ShardSwept
from corpusmill.pipeline.engine.executors import OnDask, Synchronous
from corpusmill.pipeline.engine.grid import Grid
from corpusmill.pipeline.engine.run import RunStore
from helpers.neighbours import Neighbours, algorithm_of, assert_same, trained, trained_by_hand
from helpers.toy import write_toy_corpus
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_toy_corpus(tmp_path_factory.mktemp("toy") / "corpus", n_chunks=4, documents=8)


@pytest.mark.parametrize(("n_blocks", "passes"), [(1, 1), (2, 3), (8, 2)])
def test_cells_are_trained_one_after_another(corpus, tmp_path, n_blocks, passes):
    algorithm = algorithm_of(n_blocks, passes=passes)
    assert_same([trained_by_hand(corpus, algorithm), trained(corpus, tmp_path / "run", algorithm)])


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_same_bits_on_any_number_of_workers(corpus, tmp_path, workers, cluster_of):
    algorithm = algorithm_of(8, passes=2)
    expected = trained_by_hand(corpus, algorithm)
    assert_same([expected, trained(corpus, tmp_path / "run", algorithm, OnDask(cluster_of(workers)))])


def test_sweeps_and_cells_together_are_the_tokens_of_an_epoch(corpus, tmp_path):
    events = []
    run = RunStore(str(tmp_path / "run"))
    train(Training(algorithm_of(4, passes=3), corpus, run, 1, callbacks=[events.append]), Synchronous())
    cells = [event for event in events if isinstance(event, CellsTrained)]
    swept = sum(event.tokens for event in events if isinstance(event, ShardSwept))
    assert swept == pytest.approx(corpus.n_tokens * SWEEP_SHARE)
    assert sum(event.cells for event in cells) == 3 * 4 * 4
    assert sum(event.tokens for event in cells) + swept == pytest.approx(corpus.n_tokens)


@pytest.mark.parametrize("workers", [0, 2])
def test_pairs_and_blocks_that_do_not_fit_into_memory_give_the_same_bits(
    corpus, tmp_path, workers, cluster_of, monkeypatch
):
    monkeypatch.setattr(plan, "KEPT_OF_REST", 0)
    monkeypatch.setattr(plan, "HELD_OF_REST", 0)
    algorithm = algorithm_of(8, passes=2)
    executor = OnDask(cluster_of(workers)) if workers else Synchronous()
    result = trained(corpus, tmp_path / "run", algorithm, executor)
    assert_same([trained_by_hand(corpus, algorithm_of(8, passes=2)), result])


def test_same_bits_with_several_threads(corpus, tmp_path):
    algorithm = algorithm_of(8, passes=2)
    expected = trained(corpus, tmp_path / "one", algorithm)
    # The cells take so long that the threads' time is several times that of the clock.
    slow = replace(algorithm, threads=4, seconds=0.005)
    assert_same([expected, trained(corpus, tmp_path / "four", slow)])
    row = RunStore(str(tmp_path / "four")).metrics[0]
    assert row["seconds_merge"] > 0
    assert row["seconds_kernel"] > row["seconds"]


def test_a_number_of_blocks_that_is_no_power_of_two_is_refused():
    with pytest.raises(ValueError, match="3 blocks: a grid needs a power of two, such as 2 or 4"):
        algorithm_of(3)


def test_several_ranges_of_blocks_are_refused(corpus, tmp_path):
    class Ranges(Neighbours):
        def needs(self, data, n_workers):
            return Needs(ranges=2)

    with pytest.raises(ValueError, match="ranges is 2: a grid is swept in one range"):
        trained(corpus, tmp_path / "run", algorithm_of(4, Ranges))


def test_a_grid_warns_of_idle_threads(corpus, tmp_path, cluster_of):
    warnings = []
    run = RunStore(str(tmp_path / "run"))
    training = Training(
        algorithm_of(2), corpus, run, 1, callbacks=[lambda event: warnings.append(getattr(event, "idle", ""))]
    )
    train(training, OnDask(cluster_of(3)))
    assert warnings[0].startswith("2 tasks at a time for 3 threads of workers")


# --- the order of the cells ---

sizes = st.integers(0, 5).flatmap(lambda k: st.tuples(st.just(1 << k), st.integers(0, k).map(lambda g: 1 << g)))


@given(sizes, st.integers(1, 3), st.integers(0, 9))
def test_each_pass_trains_each_cell_once(sizes, passes, step):
    n_blocks, size = sizes
    grid = Grid(3, step, n_blocks, passes)
    cells = [cell for _, cell in grid.cells(range(n_blocks), size)]
    every = itertools.product(range(passes), range(n_blocks), range(n_blocks))
    assert sorted((cell.grid_pass, cell.row, cell.column) for cell in cells) == sorted(every)


@given(sizes, st.integers(1, 3), st.integers(0, 9))
def test_cells_of_a_row_and_of_a_column_are_in_the_order_of_the_strata(sizes, passes, step):
    n_blocks, size = sizes
    numbers = {}
    for number, cell in Grid(3, step, n_blocks, passes).cells(range(n_blocks), size):
        numbers.setdefault(("row", cell.row), []).append(number)
        numbers.setdefault(("column", cell.column), []).append(number)
    assert len(numbers) == 2 * n_blocks
    assert all(found == list(range(passes * n_blocks)) for found in numbers.values())


@given(sizes, st.integers(1, 3), st.data())
def test_workers_train_their_rows_in_one_common_order(sizes, passes, data):
    n_blocks, size = sizes
    first = data.draw(st.integers(0, n_blocks - 1))
    rows = range(first, data.draw(st.integers(first + 1, n_blocks)))
    grid = Grid(3, 1, n_blocks, passes)
    common = [cell for _, cell in grid.cells(range(n_blocks), size) if cell.row in rows]
    assert [cell for _, cell in grid.cells(rows, size)] == common


@given(sizes, st.integers(1, 2))
def test_few_blocks_are_used_by_turns(sizes, passes):
    n_blocks, size = sizes
    cells = [cell for _, cell in Grid(3, 1, n_blocks, passes).cells(range(n_blocks), size)]
    while size <= n_blocks:
        turns = [cells[turn : turn + size * size] for turn in range(0, len(cells), size * size)]
        blocks = [({cell.row for cell in turn}, {cell.column for cell in turn}) for turn in turns]
        assert all(len(rows) == len(columns) == size for rows, columns in blocks)
        # Two turns of a pass in a row often share their rows or their columns.
        shared = sum(before[0] == after[0] or before[1] == after[1] for before, after in itertools.pairwise(blocks))
        assert shared >= (len(turns) - 1) // 4
        size *= 2
