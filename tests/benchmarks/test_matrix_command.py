"""``volley matrix`` end to end, on more ranks than this machine may have cores."""

import csv
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from the_command import Command, Finished, check_plan
from volley.benchmarks.matrix.cases import cases_of
from volley.benchmarks.matrix.records import RankMatrixRow

FEW = ("--iterations", "3", "--latency", "8", "--bandwidth", "4k", "--window", "4")


@pytest.mark.slow
def test_every_pair_of_four_ranks_is_measured_and_verified(volley: Command) -> None:
    """In every mode, with wrong data and without time for all pairs: engine/tests/mpi_rank_matrix.cpp."""
    words = ("--ranks", "4", "-t", "host,host/persistent", "--mode", "loaded", "--no-remeasure", "--format", "csv")
    done = volley("matrix", *words, *FEW)
    assert done.code == 0, done.err
    found = list(csv.DictReader(io.StringIO(done.out)))
    pairs = [
        (int(row["first_rank"]), int(row["second_rank"]))
        for row in found
        if (row["pattern"], row["transport"]) == ("pingpong", "host")
    ]
    assert pairs == sorted((a, b) for a in range(4) for b in range(4) if a != b)
    assert {(row["status"], row["mode"]) for row in found} == {("ok", "loaded")}
    assert all(float(row["time_s"]) > 0 for row in found)
    assert all(float(row["bandwidth_Bps"]) > 0 for row in found)
    (log,) = done.records
    rows = log.of(RankMatrixRow)
    assert len([row for row in rows if row.transport == "host"]) == 3 * 8
    assert all(row.messages_verified >= row.pairs and not row.samples_s for row in rows)


@pytest.mark.slow
def test_inside_a_launcher_all_its_ranks_take_part_though_they_are_an_odd_number(volley: Command) -> None:
    words = ("--mode", "loaded", "--latency", "8", "--bandwidth", "none", "--iterations", "3", "--samples")
    done = volley("matrix", *words, "--no-remeasure", "--format", "json", before=volley.mpirun(3))
    assert done.code == 0, done.err
    (series,) = json.loads(done.out)["series"]
    assert [row["status"] for row in series["data"]] == ["ok"] * 6
    rows = done.records[0].of(RankMatrixRow)
    assert all(list(map(len, row.samples_s)) == list(map(sum, row.visits)) == [1, 1] for row in rows)


def test_a_pair_that_hangs_is_named(volley: Command) -> None:
    done = volley("matrix", "--ranks", "3", "--transport", "host+hang", "--watchdog", "1", *FEW)
    assert done.code == 1
    assert "watchdog" in done.err
    assert "transport host+hang, pair 0-1, 8 B" in done.err


DELAYED = ("matrix", "--transport", "host+delay", "--bandwidth", "none")


@pytest.mark.slow
def test_where_ranks_share_cpus_no_pair_is_measured_again(volley: Command) -> None:
    cpu = min(os.sched_getaffinity(0))
    done = volley(*DELAYED, "--point-time", "0.01", "--ranks", "3", before=("taskset", "-c", str(cpu)))
    assert done.code == 0, done.err
    assert len(done.records) == 1
    assert done.err.count("oversubscribed: 3 ranks on 1 core") == 1  # before it measures
    assert done.out.count("oversubscribed: 3 ranks on 1 CPU of ") == 1
    assert "again" not in done.err


@pytest.mark.long
def test_a_delayed_pair_is_measured_again_and_flagged(volley: Command) -> None:
    done = volley(*DELAYED, "--iterations", "20", "--ranks", "4", "--remeasure")
    assert done.code == 0, done.err
    assert "measuring" in done.err
    first, *again = done.records
    assert [0, 1] in again[0].run.plan.options.pairs  # type: ignore[union-attr]
    (case,) = cases_of([first, *again])
    assert {(0, 1), (1, 0)} <= {pair for pair, found in case.remeasured.items() if found.flagged}
    assert "host+delay at 8 B: rank 0 → 1 takes" in done.out
    shown = volley("show", done.err.splitlines()[-1].removeprefix("records: "))
    assert "host+delay at 8 B: rank 0 → 1 takes" in shown.out


@pytest.mark.parametrize("mode", ["isolated", "loaded"])
def test_a_budget_ends_the_repetitions(volley: Command, mode: str) -> None:
    words = ("--ranks", "2", "--mode", mode, "--visits", "2147483647", "--budget", "0.3", "--latency", "8")
    done = volley("matrix", *words, "--bandwidth", "none", "--iterations", "3", "--format", "csv")
    (log,) = done.records
    assert log.complete
    skipped = [row for row in log.of(RankMatrixRow) if "skipped" in row.statuses]
    assert len(skipped) <= 2  # of the repetition that was under way


def test_a_long_matrix_says_so_before_it_starts(here: Callable[..., Finished]) -> None:
    done = here("matrix", "--ranks", "64", "--dry-run")
    assert done.code == 0
    assert json.loads(done.out)["world_size"] == 64
    assert re.match(r"volley: this takes about .*; 4032 pairs of 64 ranks: --point-time and --budget", done.err)


def test_nodes_measure_at_the_same_time(here: Callable[..., Finished]) -> None:
    hosts = ("--hosts", ",".join(f"cn{number}" for number in range(64)))
    done = here("matrix", "--dry-run", *hosts)
    assert json.loads(done.out)["options"]["mode"] == "nodes"
    assert "4032 pairs of 64 ranks, one of each of 64 nodes at a time: " in done.err
    done = here("matrix", "--dry-run", *hosts, "--mode", "isolated")
    assert json.loads(done.out)["options"]["mode"] == "isolated"


def test_a_plan_of_a_matrix_is_checked_by_the_engine(engine: Path) -> None:
    plan = {"plan": 2, "benchmark": "rank_matrix", "transports": ["host"], "world_size": 2}
    assert check_plan(engine, {**plan, "options": {"latency_sizes_bytes": [8], "pairs": [[1, 0]]}}).code == 0
    bad = check_plan(engine, {**plan, "options": {"latency_sizes_bytes": [8], "pairs": [[0, 2]]}})
    assert bad.code == 2
    assert "$.options.pairs: there is no rank 2 among 2" in bad.err
    for mode, rounds, complaint in (
        ("loaded", [[[0, 2]]], "$.options.rounds: there is no rank 2 among 2"),
        ("loaded", [[[0, 1], [1, 0]]], "a list of pairs in which no rank is twice"),
        ("isolated", [[[0, 1]]], "$.options.rounds: needs the mode `loaded`"),
    ):
        options = {"latency_sizes_bytes": [8], "mode": mode, "rounds": rounds}
        assert complaint in check_plan(engine, {**plan, "options": options}).err
