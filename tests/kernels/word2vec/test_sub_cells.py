"""Sub-cells of a cell: they divide the pairs and the negatives, and no two of a diagonal share a row."""

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.word2vec.cells import CellOptions
from corpusmill.kernels.word2vec.sub_cells import (
    GROUP_ROWS,
    GROUPS,
    MOST_ENTRIES,
    group_negatives,
    number_of_groups,
    options_of_sub_cell,
    split_cell,
)

G = 4
OPTIONS = CellOptions(5, 1.5, 0.1, 0.05, 1e-5, 0.01, random.key(3))


@pytest.fixture(scope="module")
def cell():
    rng = np.random.default_rng(0)
    pairs = (np.sort(rng.integers(0, 60, 500)) << 16 | rng.integers(0, 50, 500)).astype(np.uint32)
    return pairs, *split_cell(pairs, OPTIONS.key, G)


def sub_cells(cell):
    _, ordered, bounds = cell
    return np.split(ordered, bounds[1:-1])


def test_each_pair_is_in_one_sub_cell_sorted_as_it_was(cell):
    parts = sub_cells(cell)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.sort(cell[0]))
    for part in parts:
        np.testing.assert_array_equal(part, cell[0][np.isin(cell[0], part)])


def test_no_two_sub_cells_of_a_diagonal_share_a_row(cell):
    parts = sub_cells(cell)
    for side in (lambda pairs: pairs >> 16, lambda pairs: pairs & 0xFFFF):
        for diagonal in range(G):
            rows = [set(side(parts[a * G + (a + diagonal) % G]).tolist()) for a in range(G)]
            assert len(set.union(*rows)) == sum(len(own) for own in rows)


def test_groups_change_from_cell_to_cell(cell):
    found = {tuple(split_cell(cell[0], random.key(key), G)[1]) for key in range(8)}
    assert len(found) > 4


def test_a_word_is_drawn_as_often_as_in_the_whole_cell(cell):
    table = np.sort(np.minimum(np.random.default_rng(1).geometric(0.05, 4096) - 1, 49)).astype(np.uint16)
    negatives = group_negatives(table, cell[2], OPTIONS, G)
    counts = np.diff(cell[2]).reshape(G, G).sum(axis=0)
    whole = np.bincount(table, minlength=50) / len(table)
    expected = np.zeros(50)
    for c in range(G):
        own = np.bincount(negatives.tables[c], minlength=50) / negatives.tables.shape[1]
        assert negatives.heaviest[c] == pytest.approx(own.max(), abs=2e-3)
        expected += own * negatives.weights[c] * counts[c]
    np.testing.assert_allclose(expected, whole * OPTIONS.weight * len(cell[0]), atol=2)


def test_cells_use_different_parts_of_a_large_table(cell):
    table = np.arange(2 * MOST_ENTRIES).astype(np.uint16)
    used = np.zeros(len(table), bool)
    for key in range(16):
        negatives = group_negatives(table, cell[2], OPTIONS._replace(key=random.key(key)), G)
        assert negatives.tables.size == MOST_ENTRIES
        used[negatives.tables] = True
    assert used.mean() > 0.95


def test_a_group_without_negatives_has_a_row_of_its_own_almost_without_weight(cell):
    negatives = group_negatives(np.zeros(64, np.uint16), cell[2], OPTIONS, G)
    np.testing.assert_array_equal(negatives.tables[:, 0], [0, 1, 2, 3])
    assert negatives.weights[0] > 1
    assert negatives.weights[1:].max() < 1e-6


def test_the_learning_rate_falls_over_the_diagonals_and_ends_as_in_the_whole_cell(cell):
    negatives = group_negatives(np.arange(64, dtype=np.uint16), cell[2], OPTIONS, G)
    end = OPTIONS.alpha - OPTIONS.slope * len(cell[0])
    for diagonal in range(G):
        own = options_of_sub_cell(OPTIONS, negatives, cell[2], diagonal, 1, (1 + diagonal) % G)
        size = len(sub_cells(cell)[G + (1 + diagonal) % G])
        assert own.alpha == pytest.approx(OPTIONS.alpha + (end - OPTIONS.alpha) * diagonal / G)
        assert own.alpha - own.slope * size == pytest.approx(OPTIONS.alpha + (end - OPTIONS.alpha) * (diagonal + 1) / G)


@pytest.mark.parametrize(
    ("rows", "columns", "expected"), [(1, 1, 1), (10**5, 10**5, GROUPS), (10**5, 2 * GROUP_ROWS, 2)]
)
def test_the_number_of_groups_depends_on_the_rows_alone(rows, columns, expected):
    assert number_of_groups(rows, columns) == expected
