import json
import os
import random
import re
import shlex
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import fake_engine
from example_records import collective, log, pingpong, plan, ranks
from the_command import until
from volley import cli, tune
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.collective.results import CollectivePlan
from volley.benchmarks.pair import PINGPONG
from volley.benchmarks.points import findings, results
from volley.benchmarks.points.results import PointResult, PointSeries
from volley.errors import UserError
from volley.machine.mpi_stack import UCX_MCA, MpiAbout, Stack
from volley.records.records_file import read_runs
from volley.tune import candidates, command, files, page, search
from volley.tune.candidates import Candidate, Knob
from volley.tune.files import SizeRule, compose
from volley.tune.options import TuneOptions
from volley.tune.search import KEPT, LaunchFailedError, Place, Proof, Search, Times, proof

ROOT = Path(__file__).parents[2]
SIZES = ("8 B", "1 KiB", "64 KiB", "4 MiB")


def machine(effects: Mapping[str, Mapping[str, float]], seed: int = 1, noise: float = 0.04) -> search.Search[str]:
    """A search on a machine whose settings multiply the times of some sizes."""
    dice = random.Random(seed)

    def launch(setting: str | None) -> Times:
        if setting == "crashes":
            raise LaunchFailedError("a rank was killed by SIGSEGV")
        its = effects.get(setting or "", {})
        return {("host", at): 1e-6 * its.get(at, 1.0) * dice.lognormvariate(0, noise) for at in SIZES}

    return Search(launch, dice=random.Random(seed))


THIRTY = [f"setting {number}" for number in range(30)]


def test_the_best_of_thirty_is_found_and_a_machine_without_one_has_none() -> None:
    planted = {"setting 17": {"1 KiB": 0.9, "64 KiB": 0.9}}
    found = nothing = 0
    for seed in range(20):
        better, alike = machine(planted, seed), machine({}, seed)
        proofs = better.confirm(better.screen(THIRTY, 3), 20)
        found += "setting 17" in proofs and proofs["setting 17"].usable
        none = alike.confirm(alike.screen(THIRTY, 3), 20)
        nothing += not any(each.faster.any() for each in none.values())
    assert found >= 19
    assert nothing >= 19


def test_the_search_goes_on_after_a_setting_that_crashes() -> None:
    there = machine({"good": {"64 KiB": 0.5}})
    survivors = there.screen([*THIRTY, "crashes", "good"], 1)
    assert "good" in survivors
    assert len(survivors) == KEPT
    assert there.failed == {"crashes": "a rank was killed by SIGSEGV"}


def test_a_setting_that_begins_to_crash_in_the_confirmation_is_not_proven() -> None:
    there = machine({"good": {"64 KiB": 0.5}})
    assert list(there.confirm(["good", "crashes"], 10)) == ["good"]


def test_a_setting_that_is_slower_somewhere_is_not_usable() -> None:
    found = machine({"both": {"8 B": 0.5, "4 MiB": 1.5}}).confirm(["both"], 12)["both"]
    assert [at for (_, at), faster in zip(found.places, found.faster, strict=True) if faster] == ["8 B"]
    assert [at for (_, at), slower in zip(found.places, found.slower, strict=True) if slower] == ["4 MiB"]
    assert not found.usable


def test_a_search_whose_time_is_over_proves_nothing() -> None:
    there = machine({"good": {"64 KiB": 0.5}})
    left = iter([True] * 20)
    there.going_on = lambda: next(left, False)
    assert not any(found.faster.any() for found in there.confirm(["good"], 20).values())
    assert not there.confirm(["good"], 20)


def test_the_rounds_fit_into_the_time() -> None:
    for settings in (1, 4, 12, 30):
        for launches in (search.fewest_launches(settings), 200, 400, 2000):
            if launches < search.fewest_launches(settings):
                continue
            screening = search.screen_launches(settings, search.screening_rounds(settings, launches))
            rounds = search.confirming_rounds(settings, launches - screening)
            assert screening + search.confirm_launches(settings, rounds) <= launches


# ------------------------------------------------------------------------------------------ recorded launches


def test_the_rendezvous_threshold_of_two_h100s_is_proven_on_recorded_pairs_of_launches() -> None:
    sides = [
        [
            {(each.series, at): seconds for each in PINGPONG.observables(one) for at, seconds in each.times}
            for one in read_runs(ROOT / f"results/h100-x2/rendezvous-{name}.jsonl", BENCHMARKS)
        ]
        for name in ("default", "from-8")
    ]
    found = proof(list(zip(*sides, strict=True)))
    assert found.usable
    first = found.places.index(("aware", "8 B"))
    assert found.faster[first]
    assert 1 / found.found.ratio[first] >= 1.7


# ------------------------------------------------------------------------------------------------ what is tried


def stack(library: str, **changes: object) -> Stack:
    return Stack(MpiAbout(library, "3.1", "libmpi.so.40"), "site", "/nowhere/libmpi.so", **changes)


@pytest.mark.parametrize(
    ("of", "transports", "operations", "expected"),
    [
        (stack("Open MPI v5.0.11"), ["host"], [], {"OMPI_MCA_btl_sm_eager_limit"}),
        (stack("Open MPI v4.1.4"), ["host"], [], {"OMPI_MCA_btl_vader_eager_limit"}),
        (stack("Open MPI v5.0.11", mca=UCX_MCA), ["aware"], [], {"UCX_RNDV_THRESH"}),
        (stack("Open MPI v5.0.11"), ["host"], ["allreduce"], {"OMPI_MCA_coll_tuned_allreduce_algorithm"}),
        (stack("MPICH Version: 4.0.2"), ["host"], ["allreduce"], {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"}),
        (stack("Open MPI v5.0.11", mca=UCX_MCA), ["nccl"], ["allreduce"], {"NCCL_PROTO", "NCCL_ALGO"}),
    ],
)
def test_settings_are_those_of_the_libraries_in_use(
    of: Stack, transports: list[str], operations: list[str], expected: set[str]
) -> None:
    found = candidates.candidates(candidates.libraries_of(of, transports), operations)
    names = {name for each in found for name in each.variables}
    assert expected <= names
    other = {"OMPI": "MPIR_", "MPIR": "OMPI_", "UCX_": "MPIR_", "NCCL": "UCX_"}[min(expected)[:4]]
    assert not any(name.startswith(other) for name in names)
    assert operations or not any("coll" in name for name in names)


def test_each_setting_has_a_source_and_a_meaning() -> None:
    for knob in candidates.knobs():
        assert knob.source.startswith("https://")
        assert knob.meaning
        assert len(set(knob.values)) == len(knob.values)


def test_settings_that_an_mpich_does_not_know_are_left_out() -> None:
    one = Candidate({"MPIR_CVAR_CH4_CMA_ENABLE": "0"}, "")
    assert candidates.known_to(b"...MPIR_CVAR_CH4_CMA_ENABLE\0...", one)
    assert not candidates.known_to(b"...MPIR_CVAR_BCAST\0...", one)


def test_what_the_benchmark_refuses_is_refused_so_before_there_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert cli.main(["tune", "-o", str(folder), "pingpong", "-t", "bogus"]) == UserError.exit_code
    assert not folder.exists()


def test_the_words_of_the_benchmark() -> None:
    options = TuneOptions(benchmark=("collective",), sizes=(8, 64))
    assert shlex.join(options.words()) == "collective --operation allreduce --transport host --sizes 8,64"


# ------------------------------------------------------------------------------------------- what is made of it


def shown(series: str, ratios: Mapping[str, float]) -> Proof:
    dice = np.random.default_rng(1)
    pairs = []
    for _ in range(12):
        default = {(series, at): 1e-6 * dice.lognormal(0, 0.01) for at in ratios}
        own: dict[Place, float] = {(series, at): 1e-6 * ratio * dice.lognormal(0, 0.01) for at, ratio in ratios.items()}
        pairs.append((default, own))
    return proof(pairs)


def algorithm(number: str) -> Candidate:
    return Candidate({"OMPI_MCA_coll_tuned_allreduce_algorithm": number}, "", value=number, by_size=True)


def test_settings_for_ranges_of_sizes_become_rules(tmp_path: Path) -> None:
    proofs = {
        algorithm("3"): shown("allreduce host", {"8 B": 0.5, "1 KiB": 0.5, "64 KiB": 0.9, "4 MiB": 2.0}),
        algorithm("4"): shown("allreduce host", {"8 B": 1.5, "1 KiB": 1.0, "64 KiB": 0.6, "4 MiB": 1.0}),
        Candidate({"A": "1"}, ""): shown("allreduce host", {"8 B": 1.0, "1 KiB": 0.9, "64 KiB": 1.0, "4 MiB": 1.0}),
        Candidate({"A": "2"}, ""): shown("allreduce host", {"8 B": 1.0, "1 KiB": 1.0, "64 KiB": 1.0, "4 MiB": 0.95}),
        Candidate({"B": "1"}, ""): shown("allreduce host", {"8 B": 0.5, "1 KiB": 1.0, "64 KiB": 1.0, "4 MiB": 1.3}),
    }
    made = compose(proofs, tmp_path, 4, "/nowhere")
    assert made
    rules = tmp_path / "coll_tuned.rules"
    names = {"use_dynamic_rules": "1", "dynamic_rules_filename": str(rules)}
    assert made.variables == {"A": "1", **{f"OMPI_MCA_coll_tuned_{name}": value for name, value in names.items()}}
    assert rules.read_text("utf-8") == (
        "1 # collectives\n2 # allreduce\n3 # numbers of ranks\n1 # ranks and more\n1 # size\n0 0 0 0\n4 # ranks\n"
        "5 # sizes: from this many bytes, algorithm, fan-out, segment\n"
        "0 0 0 0\n8 3 0 0\n1025 0 0 0\n65536 4 0 0\n65537 0 0 0\n5 # ranks and more\n1\n0 0 0 0\n"
    )


def test_one_setting_that_was_proven_alone_stays_what_it_is(tmp_path: Path) -> None:
    one = Candidate({"A": "1"}, "")
    assert compose({one: shown("host", {"8 B": 0.5})}, tmp_path, 2, "/nowhere") is one
    assert compose({one: shown("host", {"8 B": 1.0})}, tmp_path, 2, "/nowhere") is None


def test_a_folder_of_another_search_is_refused(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text("")
    with pytest.raises(UserError, match="name a new folder"):
        command.run(TuneOptions(folder=tmp_path))


def test_a_search_that_is_refused_leaves_no_records_so_that_the_folder_can_be_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine.use(monkeypatch, fake_engine.install(tmp_path / "bin"))
    folder = tmp_path / "tuned"
    assert cli.main(["tune", "-s", "8", "-o", str(folder), "--budget", "1"]) == UserError.exit_code
    assert not folder.exists()


def test_a_setting_for_recorded_calls_holds_for_all_sizes(tmp_path: Path) -> None:
    options = TuneOptions(benchmark=("replay", "app.trace"))
    assert options.words()[:2] == ["replay", "app.trace"]
    for wrong in (("replay",), ("pingpong", "app.trace"), ("replay", "a", "b")):
        with pytest.raises(UserError, match="takes one benchmark"):
            TuneOptions(benchmark=wrong)
    with pytest.raises(UserError, match="the trace says what is sent"):
        TuneOptions(benchmark=("replay", "app.trace"), sizes=(8,), given=frozenset({"sizes"}))
    proofs = {algorithm("3"): shown("replay", {"": 0.8})}
    made = compose(proofs, tmp_path, 2, "/nowhere")
    assert made == algorithm("3")
    tuning = page.Tuning("replay", "MPI", 2, 20, [made], proofs, {}, tmp_path)
    assert tuning.chosen == made
    said = page.comments(tuning)
    assert "measured with the calls of this trace: other programs may become slower" in said
    assert said[1].startswith("replay: 0.")


def test_the_headline_is_the_median_of_what_was_proven(tmp_path: Path) -> None:
    one = Candidate({"A": "1"}, "")
    proofs = {one: shown("host", {"8 B": 0.5, "64 B": 0.8, "1 KiB": 0.8, "4 KiB": 1.0})}
    tuning = page.Tuning("pingpong", "MPI", 2, 20, [one], proofs, {}, tmp_path)
    times, said = page.report(tuning, full=False).heading[0].removeprefix("FASTER: at 3 points ").split(" ", 1)
    assert float(times) == pytest.approx(1 / 0.8, rel=0.02)
    assert said == "times as fast (median); at 1 other point not shown to be slower"


def test_what_was_measured_again_and_not_written_says_why(tmp_path: Path) -> None:
    part, less, unproven = (Candidate({name: "1"}, "") for name in "ABC")
    proofs = {
        Candidate({"A": "1", "D": "1"}, "", parts=[part]): shown("host", {"8 B": 0.2, "4 KiB": 1.0, "1 MiB": 1.0}),
        part: shown("host", {"8 B": 0.5}),
        less: shown("host", {"8 B": 0.8}),
        unproven: shown("host", {"8 B": 1.0}),
    }
    report = page.report(page.Tuning("pingpong", "MPI", 2, 20, [*proofs], proofs, {}, tmp_path), full=False)
    assert re.fullmatch("FASTER: at host 8 B .* times as fast; at 2 other points not .* slower", report.heading[0])
    assert "4 settings tried, 4 measured again" in report.heading[1]
    assert [row[-1] for row in report.tables[1].rows] == [
        "proven; part of what is written", "proven; what is written gains more", "not proven",
    ]  # fmt: skip


def test_rules_of_mpich_change_one_collective_for_one_number_of_ranks(tmp_path: Path) -> None:
    usual = {"algorithm=MPIR_Allreduce_intra_smp": {}}
    selection = {
        "collective=allreduce": {"comm_type=intra": usual, "comm_type=inter": {}},
        "collective=bcast": {"comm_type=intra": {}},
    }
    library = tmp_path / "libmpi.so"
    library.write_bytes(
        b'\0{"collective=bcast":{"x":{}}}\0' + json.dumps(selection).encode().replace(b" ", b"") + b"\0"
    )
    assert files.mpich_selection(str(library)) == selection
    ring = Candidate({"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring"}, "", value="ring", by_size=True)
    assert files.can_rule(ring, str(library))
    assert not files.can_rule(ring, "/nowhere")
    assert files.mpich(selection, [SizeRule("allreduce", 1024, 4096, ring)], 2) == {
        "collective=allreduce": {
            "comm_type=intra": {
                "comm_size<2": usual,
                "comm_size<=2": {
                    "avg_msg_size<1024": usual,
                    "avg_msg_size<=4096": {"algorithm=MPIR_Allreduce_intra_ring": {}},
                    "avg_msg_size=any": usual,
                },
                "comm_size=any": usual,
            },
            "comm_type=inter": {},
        },
        "collective=bcast": {"comm_type=intra": {}},
    }


def test_what_the_environment_sets_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UCX_TLS", "NCCL_ALGO"):  # one is a knob, the other is set with one
        before = candidates.candidates(["UCX", "NCCL"], ["allreduce"])
        monkeypatch.setenv(name, "x")
        left = candidates.candidates(["UCX", "NCCL"], ["allreduce"])
        assert left == [each for each in before if name not in each.variables] != before


@pytest.mark.parametrize(("by_rule", "said"), [(True, 0), (False, 1)])
def test_a_setting_for_all_sizes_says_at_which_it_was_measured(by_rule: bool, said: int, tmp_path: Path) -> None:
    part, sizes = algorithm("3"), {"64 KiB": 0.5, "8 B": 0.5, "4 MiB": 0.9}
    chosen = Candidate({"RULES": "file"} if by_rule else {**part.variables, "A": "1"}, "", parts=[part])
    tuning = page.Tuning("collective", "an MPI", 8, 1, [part], {chosen: shown("allreduce host", sizes)}, {}, tmp_path)
    sentence = "measured from 8 B to 4 MiB: other sizes may become slower"
    assert page.comments(tuning).count(sentence) == said
    assert [note.text for note in page.report(tuning, full=False).notes].count(sentence) == said


@pytest.mark.parametrize(("cut", "why"), [(page.TIME_OVER, "the time was over"), ("", "others were faster")])
def test_why_a_setting_was_not_confirmed(cut: str, why: str, tmp_path: Path) -> None:
    settings = [algorithm(number) for number in "34"]
    faster = {settings[0]: shown("allreduce host", {"8 B": 0.5})}
    tuning = page.Tuning("collective", "an MPI", 8, 1, settings, faster, {}, tmp_path, cut_short=cut)
    (note,) = [note.text for note in page.report(tuning, full=False).notes if settings[1].name in note.text]
    assert f"because {why}" in note


@pytest.mark.parametrize("typed", [[], ["--budget", "300"]])
def test_a_search_whose_launches_are_long_takes_what_it_needs_unless_the_user_named_a_time(
    typed: list[str],
) -> None:
    options, until = tune.COMMAND.parse(typed), time.monotonic() + 300
    about: Any = (None, None, None, None)
    launcher = command.SettingLauncher(*about, until, launch_s=16.0)
    needed = search.fewest_launches(20)
    if typed:
        with pytest.raises(
            UserError, match=rf"18 launches of 16 s, and 20 settings need {needed}: write --budget (\d+)"
        ) as refused:
            command.take_longer(options, launcher, 20)
        launcher.until += float(str(refused.value).partition("write --budget ")[2].partition(",")[0]) - 300
    else:
        assert command.take_longer(options, launcher, 20) == " and not 300 s; fewer sizes shorten it"
    assert launcher.launches_left > needed
    assert not command.take_longer(options, launcher, 20)


def test_files_hold_words_of_a_machine_as_data(tmp_path: Path) -> None:
    files.write_settings(tmp_path, {"OMPI_MCA_smsc": "^cma", "UCX_TLS": "a b'c"}, ["host\nexport EVIL=1"])
    assert (tmp_path / "env.sh").read_text() == (
        "# host export EVIL=1\nexport OMPI_MCA_smsc='^cma'\nexport UCX_TLS='a b'\"'\"'c'\n"
    )
    assert (tmp_path / "openmpi-mca-params.conf").read_text() == "# host export EVIL=1\nsmsc = ^cma\n"


# --------------------------------------------------------------------------------------------- the whole command


@pytest.mark.slow
def test_settings_that_crash_hang_or_corrupt_are_reported_and_the_search_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_engine.use(monkeypatch, fake_engine.install(tmp_path / "bin"))
    values = ["quick", "cut", "failing", "watchdog", "unable"]
    knob = Knob(variable="VOLLEY_FAKE", values=values, libraries=["ob1"], meaning="what a test does", source="")
    monkeypatch.setattr(candidates, "knobs", lambda: [knob])
    monkeypatch.setattr(search, "MOST_ROUNDS", search.FEWEST_ROUNDS)
    monkeypatch.setattr(search, "MOST_SCREENING", 1)
    folder = tmp_path / "tuned"
    assert cli.main(["tune", "pingpong", "-s", "8,64", "-o", str(folder), "-q", "-f", "json", "--budget", "400"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["series"]
    assert report["variables"] == {"VOLLEY_FAKE": "quick"}
    assert {row["verdict"] for row in report["data"]} == {"faster"}
    reasons = {name.partition("=")[2]: reason for name, reason in report["failed"].items()}
    assert reasons.keys() == {"cut", "failing", "watchdog", "unable"}
    assert "one bit differs" in reasons["failing"]
    assert "no progress" in reasons["watchdog"]
    assert (folder / "env.sh").read_text().endswith("export VOLLEY_FAKE=quick\n")
    assert os.environ.get("VOLLEY_FAKE") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launches", "proven"), [(1, False), (3, False), (command.TRIALS + 1 + 3, False), (command.TRIALS + 1 + 25, True)]
)
def test_a_search_that_is_stopped_keeps_its_records_and_shows_what_was_confirmed(
    launches: int, proven: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_engine.use(monkeypatch, fake_engine.install(tmp_path / "bin"))
    knob = Knob(variable="VOLLEY_FAKE", values=["quick"], libraries=["ob1"], meaning="what a test does", source="")
    monkeypatch.setattr(candidates, "knobs", lambda: [knob])
    left, measure = iter(range(1, launches)), command.SettingLauncher._times

    def stopping(launcher: command.SettingLauncher, candidate: Candidate | None) -> Times:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGINT)
            until(lambda: launcher.stop.signal is not None, "the signal does not arrive")
        return measure(launcher, candidate)

    monkeypatch.setattr(command.SettingLauncher, "_times", stopping)
    assert cli.main(["tune", "-s", "8,64", "-o", str(tmp_path / "new"), "--budget", "400", "-f", "json"]) == 130
    captured = capsys.readouterr()
    kept = "the records of all finished measurements are complete" if launches > 1 else "before anything was measured"
    assert kept in captured.err
    assert bool(captured.out) is (launches > command.TRIALS + 1 + 2)
    assert (tmp_path / "new/env.sh").exists() is proven
    records = tmp_path / "new/records.jsonl"
    assert records.exists() is (launches > 1)
    if launches > 1:
        assert str(records) in captured.err
        assert len(read_runs(records, BENCHMARKS)) == launches - 1


# ------------------------------------------------------------------------------------------------------ guidelines


def series_of(*times: tuple[str, int, float], **changes: Any) -> PointSeries:
    """Six launches of collectives, or of a ping-pong where the name is empty."""
    logs, more = [], {"operations_per_sample": changes.get("batch", 1), "entry_skew_s": [0.0]}
    for launch in range(6):
        factor = 1 + 0.01 * launch
        records = [
            collective(name, [time_s * factor] * 3, size, **more)
            if name
            else pingpong([time_s * factor] * 3, size=size)
            for name, size, time_s in times
        ]
        the_plan = plan("collective" if times[0][0] else "pingpong", **changes.get("plan", {}))
        made = replace(log(*records, the_plan=the_plan), number=launch + 1)
        logs.append(replace(made, run=msgspec.structs.replace(made.run, **changes.get("run", {}))))
    (series,) = results.results(logs)
    return series


def points(*times: tuple[str, int, float], batch: int = 1) -> list[PointResult]:
    return list(series_of(*times, batch=batch).points)


def test_an_allreduce_that_takes_longer_than_its_parts() -> None:
    slow, long = (
        points(("allreduce", size, 3e-4), ("reduce-scatter", size, 5e-5), ("allgather", size, 5e-5))
        for size in (1 << 18, 1 << 20)
    )
    found = findings.violations(slow, None)
    assert [each.text for each in found] == [
        "allreduce host of 256 KiB takes 3.00 times as long as reduce-scatter and allgather (95 % CI 3.00 to 3.00)"
    ]
    assert found[0].command == "volley tune collective --operation allreduce -t host"
    assert not findings.violations(long, None), "each part alone has its buffers in the caches"
    (found,) = findings.violations(
        long, plan("collective", options=CollectivePlan(operations=["allreduce"], cold_cache=True))
    )
    assert found.command == "volley tune collective --operation allreduce -t host --cold-cache"
    asked = [["--hosts", "a,b"], ["--launches", "6"], ["--mpi", "mpich"]]
    (again,) = findings.violations(slow, plan("collective", launch={"asked": asked}))
    assert again.command == "volley tune collective --operation allreduce -t host --hosts a,b --mpi mpich"
    assert tune.COMMAND.parse(again.command.split()[2:]).job.hosts == ("a", "b")
    assert "--cold-cache" in tune.COMMAND.parse(found.command.split()[2:]).words()
    parts = (("allreduce", 8, 3e-5), ("reduce", 8, 5e-6), ("broadcast", 8, 5e-6))
    (found,) = findings.violations(points(*parts), None)
    assert " as reduce and broadcast (" in found.text
    assert not findings.violations(points(*parts, batch=2), None), "in a batch a root runs ahead"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, 1),
        ({"run": {"ranks": ranks(4, cores=[0, 1])}}, 0),
        ({"run": {"ranks": ranks(4)}}, 1),
        ({"plan": {"launch": {"oversubscribed": True}}}, 0),
    ],
)
def test_ranks_that_share_cores_wait_and_nothing_is_slow(changes: dict[str, Any], found: int) -> None:
    series = series_of(("allreduce", 8, 3e-5), ("reduce", 8, 5e-6), ("broadcast", 8, 5e-6), **changes)
    assert [note.verdict for note in findings.findings(series, "")].count("SLOW") == found


def test_a_message_that_takes_longer_than_a_longer_one_or_than_its_pieces() -> None:
    found = findings.violations(points(("", 8192, 1e-6), ("", 32768, 9e-6), ("", 65536, 6e-6)), None)
    assert [each.text.partition(" (")[0] for each in found] == [
        "host of 32 KiB takes 2.25 times as long as 4 messages of 8 KiB",
        "host of 32 KiB takes 1.50 times as long as 64 KiB",
    ]


def test_what_follows_the_guidelines_is_not_named() -> None:
    assert not findings.violations(points(("", 8, 1.02e-6), ("", 16, 1e-6), ("", 64, 1e-6)), None)
    assert not findings.violations(points(("allreduce", 8, 1e-5), ("allgather", 8, 1e-6)), None)
