"""The commands that compare models on a device with the CPU run, here on tiny data."""

import pytest
from click.testing import CliRunner
from corpusmill.kernels.cuda.host_memory import BUSY_TOKENS
from helpers.on_device import emulated, on_device

from benchmarks.gpu import prediction
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.instructions import CASES


def rows_of(*arguments):
    """Return the printed rows of a command without their head, cut into cells."""
    result = CliRunner().invoke(main, ["--quick", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.output.splitlines()[1:]]


@on_device
def test_the_race_shows_the_same_error_on_both_devices():
    rows = rows_of("race", "--model", "nmf")
    assert [row[4] for row in rows] == ["cuda", "cuda", "cpu", "cpu"]
    assert [row[-1] for row in rows[:2]] == [row[-1] for row in rows[2:]]


@on_device
def test_word_scores_are_shown_by_number_of_groups():
    rows = rows_of("quality", "--method", "strata")
    assert [row[:2] for row in rows] == [["strata", "1"], ["strata", "2"]]
    assert all("loss" in row for row in rows)


def test_the_cpu_computes_only_strata_by_number_of_blocks():
    result = CliRunner().invoke(main, ["--quick", "quality", "--device", "cpu", "--method", "par"])
    assert result.exit_code == 2
    assert "on the CPU, method 'par' has no thread blocks: choose strata" in result.output


def test_the_time_model_copies_what_a_commit_of_nmf_writes_and_says_whether_targets_are_met():
    parts = list(prediction.nmf_epoch(1000, 300, 5000, 16, n_blocks=3))
    # H and W; S of each block, and Q.
    assert sum(part.pinned for part in parts) == 4 * 16 * (1000 + 300) + 4 * 8 * 16**2
    result = CliRunner().invoke(main, ["predict"], catch_exceptions=False)
    targets = [line for line in result.output.splitlines() if line.startswith("target:")]
    assert len(targets) == 9
    assert all(": met" in line or ": missed" in line for line in targets)
    # Both times are printed: with and without overlap of launches with kernels.
    nmf = result.output.partition("NMF, K = 256, 20 Newsgroups")[2].partition("NMF, K = 256, n_blocks")[0]
    assert nmf.strip().splitlines()[-2].endswith(": missed")
    assert nmf.strip().splitlines()[-1].endswith(" ms, target missed")


def test_parts_of_an_epoch_take_as_long_as_their_slowest_resource_and_launches_after_waits():
    device = prediction.H200
    part = prediction.Work("", memory=device.memory, bus=2 * device.bus, launches=3 * device.launches)
    assert part.seconds(device) == (3.0, "launches")
    waits = part._replace(idle_launches=3 * device.launches, barriers=device.barriers)
    assert waits.seconds(device) == (6.0, "idle launches")
    # Three seconds of launches, two of copies, one of barriers.
    assert waits.seconds_without_overlap(device) == 6.0
    assert part.seconds_without_overlap(device) == 5.0


@on_device
def test_instructions_are_counted_where_ptx_runs_on_the_cpu():
    if not emulated():
        pytest.skip("a GPU does not count instructions: tests/ptx does")
    rows = rows_of("instructions")
    numbers = {" ".join(row[:-1]): float(row[-1]) for row in rows}
    draw = numbers["LDA, K = 1,024: draw"]
    assert 100 < draw < 5000
    assert {name.partition(":")[0] for name in numbers} == set(CASES)


def test_chunks_of_the_advised_size_take_a_device_about_as_long_as_their_launches():
    size = BUSY_TOKENS["lda.esca"]
    parts = list(prediction.lda_epoch(size, size / 300, 100_000, 1024, size))[:3]
    launches = sum(part.launches for part in parts) / prediction.H200.launches
    topics = 2 * size / prediction.H200.bus
    work = topics + sum(part._replace(launches=0, idle_launches=0).seconds(prediction.H200)[0] for part in parts)
    assert 0.5 < work / launches < 3
