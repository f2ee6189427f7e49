"""The commands that compare models on a device with the CPU run, here on tiny data."""

from pathlib import Path

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
    assert len(targets) == 8
    assert all(": met" in line or ": missed" in line for line in targets)
    # Both times are printed: with and without overlap of launches with kernels.
    nmf = result.output.partition("NMF, K = 256, 20 Newsgroups")[2].partition("NMF, K = 256, n_blocks")[0]
    assert nmf.strip().splitlines()[-2].endswith(": missed")
    assert nmf.strip().splitlines()[-1].endswith(" ms, target missed")


#: Rows of the table in docs/how-to/gpus.md, and the epochs whose figures they show.
ON_THE_PAGE = {
    "LDA, 1,024 topics, 10⁹ tokens": "LDA, K = 1,024",
    "LDA, 5,000 topics": "LDA, K = 5,000",
    "LDA, 20,000 topics": "LDA, K = 20,000",
    "NMF, K = 256, 20 Newsgroups": "NMF, K = 256, 20 Newsgroups",
    "FULL-W2V, 128 numbers": "FULL-W2V, D = 128",
    "PAR-Word2Vec, 128 numbers": "PAR-Word2Vec, D = 128",
    "strata, 128 numbers, 16 blocks": "Strata, D = 128, 16 blocks",
    "random indexing, 2,048 numbers, 10 per seed": "Random indexing, D = 2,048",
}


def test_the_page_shows_the_figures_and_the_aims_of_the_program():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "gpus.md").read_text()
    _, _, table = page.partition("| an epoch of | amount per second |")
    rows = [line.split(" | ") for line in table.partition("\n\n")[0].splitlines()[2:]]
    epochs = {epoch.name: epoch for epoch in prediction.EPOCHS}
    assert [row[0].removeprefix("| ") for row in rows] == list(ON_THE_PAGE)
    for (_, shown, limit), name in zip(rows, ON_THE_PAGE.values(), strict=True):
        epoch = epochs[name]
        seconds = sum(part.seconds(prediction.H200)[0] for part in epoch.parts)
        unit = {"ms": 1e-3, "billion": 1e9, "million": 1e6}[shown.split()[1]]
        figure, aim = (seconds, epoch.target) if unit < 1 else (epoch.amount / seconds, epoch.target)
        if unit > 1 and aim:
            aim = epoch.amount / aim
        assert float(shown.split()[0]) in [float(f"{figure / unit:.{digits}g}") for digits in (2, 3)], name
        if "is the aim" in shown:
            assert float(shown.split("; ")[1].split()[0]) == pytest.approx(aim / unit), name
        else:
            assert not epoch.target, name
        slowest = max(epoch.parts, key=lambda part: part.seconds(prediction.H200)[0])
        word = {"issued": "instructions", "atomics": "atomic", "bus": "copies"}
        assert word[slowest.seconds(prediction.H200)[1]] in limit, name


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
