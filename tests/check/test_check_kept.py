"""Kept records of checks, judged again."""

import gzip
import json
import re
import shlex
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from node_limits import good_checks
from the_command import Finished
from volley.check import limits
from volley.check.limits import Limits
from volley.records.plan import OUT_OF_TIME

RESULTS = Path(__file__).parents[2] / "results"
TWO_CORES = RESULTS / "two-cores" / "check.jsonl.gz"
TWO_H100S = RESULTS / "h100-x2" / "check.jsonl.gz"
Here = Callable[..., Finished]


def findings_in(done: Finished) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done.out)["findings"]
    return found


def test_the_command_that_shows_all_findings_shows_the_same_verdicts(here: Here, tmp_path: Path) -> None:
    """As it is typed: of kept records, with what they are judged by."""
    records, known = tmp_path / "r 1.jsonl", tmp_path / "l.json"
    records.write_bytes(gzip.decompress(TWO_CORES.read_bytes()))
    (tmp_path / "node.json").write_text(json.dumps({"cpu": "word " * 200}))
    known.write_bytes(msgspec.json.encode(good_checks({"x": [1.0] * 5})))
    words = ("--expect", str(known), "--inventory", str(tmp_path / "node.json"), "--one-switch", "-t", "host")
    cut = here("check", "--from", str(records), *words)
    assert cut.code, cut.err
    said = cut.out.splitlines()
    assert said[-1].startswith("all: volley check --from ")
    whole = here(*shlex.split(said[-1])[2:])
    assert (whole.code, whole.out.splitlines()[0]) == (cut.code, said[0])
    assert whole.out.count("word") == 200


def test_what_is_recommended_names_the_files_of_the_user(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my limits.json").write_bytes(msgspec.json.encode(good_checks({"x": [1.0]})))
    Path("there.json").write_text('{"nics": ["mlx5_0"]}')
    by = ("--expect", "my limits.json", "--inventory", "there.json")
    done = here("check", "-f", "json", "--from", str(TWO_CORES), *by)
    told = "\n".join(each["decides"] for each in findings_in(done))
    assert "on good nodes: volley check --expect 'my limits.json' --learn" in told
    assert "on each node: volley check --inventory there.json" in told
    assert "FILE" not in told


def test_healthy_machines_pass(here: Here, tmp_path: Path) -> None:
    """Kept checks of a machine without GPUs, and of two GPUs: of these the last layer was not kept, and is named."""
    done = here("check", "--from", str(TWO_CORES))
    assert done.code == 0, done.out
    assert "PASS         messages in host memory: as fast as the reference two-cores" in done.out
    done = here("check", "--from", str(TWO_H100S), "-f", "json")
    assert done.code == 0, done.out
    not_passed = {(each["layer"], each["verdict"]) for each in findings_in(done) if each["verdict"] != "PASS"}
    assert not_passed == {("all ranks", "NOT JUDGED")}
    # Another machine with the GPUs of the reference: 8 B take 11 to 18 % longer there, 64 MiB 3 %.
    done = here("check", "--from", str(RESULTS / "h200-x2" / "check.jsonl.gz"))
    assert done.code == 0, done.out
    assert "PASS         MPI on device memory: 7.3 % slower than the reference h200-x2" in done.out
    file = tmp_path / "node.json"
    file.write_text('{"nodes": "cn[1-2],vm"}')
    done = here("check", "--from", str(TWO_CORES), "--inventory", str(file))
    assert "PASS         inventory: all is as it must be: name" in done.out
    file.write_text('{"gpus": 2, "nics": ["mlx5_0"]}')
    done = here("check", "--from", str(TWO_H100S), "--inventory", str(file))
    assert "the records of this check do not contain: NICs" in done.out


TOGETHER = "among all 2 ranks: host"
LATER = {"started_at": "2026-01-01T00:00:00Z"}


def two_cores() -> list[Any]:
    """The records of a kept check of two cores."""
    with gzip.open(TWO_CORES) as file:
        return list(map(json.loads, file))


def written(records: Iterable[Any]) -> bytes:
    return b"".join(msgspec.json.encode(each) + b"\n" for each in records)


def missing_in(here: Here, folder: Path, change: Callable[[Any], Any], *more: str) -> tuple[list[str], int]:
    """Judge a kept check of two cores, each of whose records is changed, by limits of good nodes that also measured
    ``more``; return what is missing, and the exit code."""
    records = [new for record in two_cores() if (new := change(record))]
    (folder / "r.jsonl").write_bytes(written(records))
    of = limits.Machine(cpu=records[0]["ranks"][0]["cpu"], ranks=2)
    names = [*(f"pingpong: host, {size}" for size in ("8 B", "64 KiB", "1 MiB")), "collective: allreduce host, 1 MiB"]
    names += [f"pingpong {TOGETHER}, 8 B", f"stream {TOGETHER}, 1 MiB", *more]
    checked = limits.Checked(host="a", machine=of, seconds=dict.fromkeys(names, 1.0))
    (folder / "known.json").write_bytes(msgspec.json.encode(Limits(checks=[checked] * limits.FEWEST)))
    words = ("--from", str(folder / "r.jsonl"), "--expect", str(folder / "known.json"), "-f", "json")
    done = here("check", *words)
    return [each["part"] for each in findings_in(done) if each["layer"] == "what must be there"], done.code


def out_of_time(record: Any) -> Any:
    """Only the shortest messages were measured before the budget ended."""
    if record.get("size_bytes", 0) <= 8:
        return record
    if record["record"] == "rank_matrix":
        skipped = [{"ranks": record["ranks"], "reason": OUT_OF_TIME}]
        return {**record, "medians": [None], "lows": [None], "samples": [0], "skipped": skipped}
    kept = ("record", "version", "transport", "ranks", "operation", "size_bytes")
    return {key: record[key] for key in kept if key in record} | {"status": "skipped", "reason": OUT_OF_TIME}


def ended_early(record: Any) -> Any:
    """Launches that were killed after the shortest messages."""
    return None if record["record"] in ("end", "launch_times") or record.get("size_bytes", 0) > 8 else record


def without_host(record: Any) -> Any:
    """The transport of two layers could not be used."""
    if record["record"] == "transport":
        return {**record, "available": False, "reason": "no MPI"}
    return None if record["record"] in ("pingpong", "collective") else record


@pytest.mark.parametrize(("asked", "longer"), [([], 90), ([["--budget", "6"]], 45), ([["--budget", "70"]], 140)])
def test_a_longer_budget_is_that_of_the_check(here: Here, tmp_path: Path, asked: list[list[str]], longer: int) -> None:
    """Twice its own, and no less than the usual one: what the check itself advised."""

    def change(record: Any) -> Any:
        if record["record"] == "run":
            record["plan"]["launch"]["asked"] = asked
        return out_of_time(record)

    missing_in(here, tmp_path, change)
    done = here("check", "--from", str(tmp_path / "r.jsonl"))
    assert set(re.findall(r"--budget (\d+)", done.out)) == {str(longer)}


def test_what_was_not_asked_for_or_had_no_time_is_not_missing(here: Here, tmp_path: Path) -> None:
    """What was asked for and could not be used is."""
    assert missing_in(here, tmp_path, lambda record: record) == ([], 0)
    more = (f"stream {TOGETHER}/put, 1 MiB", "pingpong: host, 4 MiB")
    assert missing_in(here, tmp_path, lambda record: record, *more) == ([], 0)
    assert missing_in(here, tmp_path, out_of_time) == ([], 4)
    assert missing_in(here, tmp_path, ended_early) == ([], 4)
    lost = ["collective: allreduce host, 1 MiB; pingpong: host, 1 MiB; pingpong: host, 64 KiB; and pingpong: host, 8 B"]
    assert missing_in(here, tmp_path, without_host) == (lost, 1)


def _changed(change: Callable[[Any], None], launches: slice = slice(None), **changes: str) -> bytes:
    """A kept check of two cores: some of its launches, of whose first record each is changed."""
    records = two_cores()
    begins = [place for place, record in enumerate(records) if record["record"] == "run"]
    parts = [records[first:last] for first, last in zip(begins, [*begins[1:], None], strict=True)][launches]
    for part in parts:
        change(part[0])
        part[0].update(changes)
    return written(record for part in parts for record in part)


def with_other_ranks(run: Any, **changes: str) -> None:
    for rank in run["ranks"]:
        rank.update(changes)


def with_tcp(run: Any) -> None:
    run["environment"]["UCX_TLS"] = "tcp"


def with_warmup(run: Any) -> None:
    run["plan"]["sampling"]["mode"] = "fixed"
    run["plan"]["launch"]["asked"].append(["--warmup", "1"])


def test_only_checks_of_one_machine_in_one_way_are_judged_together(here: Here, tmp_path: Path) -> None:
    """The same launch, in two files or twice in one, counts once."""
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_bytes(_changed(lambda _: None))
    alone = here("check", "--from", str(first))
    second.write_bytes(first.read_bytes() * 2)
    done = here("check", "--from", f"{first},{second}")
    assert (done.code, done.out) == (alone.code, alone.out)
    assert "which volley counts once" in done.err
    for change, launches, said in (
        (partial(with_other_ranks, host="another"), slice(None), "host ("),
        (partial(with_other_ranks, host="another"), slice(-1, None), "host ("),
        (partial(with_other_ranks, cpu="another"), slice(-1, None), "CPU ("),
        (with_tcp, slice(None), "UCX_TLS (not set or tcp)"),
        (with_warmup, slice(1), "options (none or --warmup 1)"),
    ):
        second.write_bytes(_changed(change, launches, **LATER))
        done = here("check", "--from", f"{first},{second}")
        assert (done.code, done.out) == (2, "")
        assert f"they differ in {said}" in done.err
        assert "judge each check by itself" in done.err
        done = here("show", str(first), str(second))
        assert alone.out in done.out


def is_of_check(run: Any) -> None:
    run["plan"]["launch"]["of_check"] = {"asked": [["--budget", "50"]], "one_machine": True, "nodes": 1}


def of_other_sizes(run: Any) -> None:
    run["plan"]["options"]["sizes_bytes"] = [8]
    run["plan"]["launch"]["asked"] = [["--transport", "host"], ["--sizes", "8"]]


def test_a_check_is_not_judged_together_with_other_launches(here: Here, tmp_path: Path) -> None:
    """Old launches of a check do not say that they are of one, but those of other GPUs are not of it."""
    file, results = tmp_path / "r.jsonl", RESULTS / "h100-x2"
    other = _changed(lambda _: None, slice(1), **LATER)
    of_gpus = [gzip.decompress((results / f"{name}.jsonl.gz").read_bytes()) for name in ("check", "pingpong-after")]
    for joined, said in (
        (_changed(is_of_check) + other, "r.jsonl has 1 launch of no check beside those of a check"),
        (
            _changed(lambda _: None) + _changed(of_other_sizes, slice(1), **LATER),
            "r.jsonl has 1 launch of no check beside those of a check",
        ),
        (b"".join(of_gpus), "they differ in GPU ("),
    ):
        file.write_bytes(joined)
        done = here("check", "--from", str(file))
        assert (done.code, done.out) == (2, "")
        assert said in done.err


def test_a_check_that_ended_early_shows_its_verdicts(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_bytes(_changed(is_of_check, slice(3)))
    done = here("show", str(file))
    for said in (
        "PASS         messages in",
        "UNDECIDED    allreduce in",
        "UNDECIDED    all ranks: these records do not contain it\n             → volley check --budget 100\n",
    ):
        assert said in done.out
    assert here("check", "--from", str(file)).out in done.out


@pytest.mark.parametrize("verdict", ["FAIL", "NOT POSSIBLE", "UNDECIDED"])
def test_what_a_check_could_not_measure_is_in_its_records_too(here: Here, tmp_path: Path, verdict: str) -> None:
    """A launch that failed, without its end or with it; a layer that never began; one for which there was no time."""
    layer = "messages in host memory"
    said = {"record": "not_measured", "version": 2, "layer": layer, "verdict": verdict}
    said |= {"why": "so", "decides": "volley x"}
    records = [*map(json.loads, _changed(is_of_check).splitlines()), said]
    end = next(each for each in records if each["record"] == "end")
    launch = [place for place, each in enumerate(records) if each["record"] == "run"][3]
    ended = [records, [each for each in records if each is not end]]
    for kept in ended if verdict == "FAIL" else [records[launch:]]:
        (tmp_path / "r.jsonl").write_bytes(written(kept))
        done = here("check", "--from", str(tmp_path / "r.jsonl"), "-f", "json")
        (found,) = (each for each in findings_in(done) if each["verdict"] == verdict)
        assert done.code == {"FAIL": 1, "NOT POSSIBLE": 3, "UNDECIDED": 4}[verdict]
        assert [found[key] for key in ("layer", "why", "decides")] == [layer, "so", "volley x"]


def test_kept_records_are_judged_as_the_check_was(here: Here, tmp_path: Path) -> None:
    """By what it saw of its host, by its transports and hosts; its files are to be named again."""
    asked = [["--transport", "aware"], ["--launcher-arg", "x"], ["--launcher-arg", "y"], ["--inventory", "a b"]]
    seen = {"host": "vm.site.org", "node": "cn1", "gpus": None, "nics": ["mlx5_0"]}

    def change(record: Any) -> Any:
        if record["record"] == "run":
            is_of_check(record)
            record["plan"]["launch"]["of_check"] |= {"asked": asked, "here": seen}
        more = {"transport": "aware", "available": False, "reason": "no GPU"} if record["record"] == "transport" else {}
        return {**record, **more}

    missing_in(here, tmp_path, change)
    for nic, verdict in (("mlx5_0", "PASS"), ("mlx5_1", "FAIL")):
        (tmp_path / "nics.json").write_text(json.dumps({"nodes": "cn1", "nics": [nic]}))
        words = ("check", "--from", str(tmp_path / "r.jsonl"), "-f", "json", "--inventory", str(tmp_path / "nics.json"))
        document = json.loads(here(*words).out)
        found = {each["layer"]: each for each in document["findings"]}
        assert (found["inventory"]["verdict"], document["nodes"]) == (verdict, ["cn1"])
    done = here("check", "--from", str(tmp_path / "r.jsonl"))
    assert done.code == 3
    assert "NOT POSSIBLE all ranks: aware: no GPU" in done.out
    assert "records: the check was judged by --inventory 'a b', too" in done.out
    (tmp_path / "known.json").write_text('{"checks": []}')
    done = here("check", "--from", str(tmp_path / "r.jsonl"), "--expect", str(tmp_path / "known.json"))
    assert "volley check --launcher-arg x --launcher-arg y " in done.out


def test_a_map_for_kept_records_replaces_theirs_and_names_their_nodes(here: Here, tmp_path: Path) -> None:
    hosts = ["cn0", "cn1"]

    def on_two_hosts(run: Any) -> None:
        is_of_check(run)
        asked = [["--hosts", ",".join(hosts)], ["--one-switch"]]
        run["plan"]["launch"]["of_check"] |= {"asked": asked, "one_machine": False, "nodes": 2}
        for rank, host in zip(run["ranks"], hosts, strict=True):
            rank["host"] = host

    records, switches = tmp_path / "r.jsonl", tmp_path / "sw"
    records.write_bytes(_changed(on_two_hosts, slice(-1, None)))
    for names, code, said in (
        (hosts, 0, ""),
        (hosts[:1], 0, f"volley: --switches {switches} does not name cn1: it names 1 node from cn0 on\n"),
        (["x"], 2, f"volley: --switches {switches} does not name cn0 and cn1: it names 1 node from x on\n"),
    ):
        switches.write_text("".join(f"{name} leaf1\n" for name in names))
        done = here("check", "--from", str(records), "--switches", str(switches))
        assert (done.code, done.err) == (code, said)
        assert "--one-switch" not in done.out
        assert code or f"volley check --switches {switches} --hosts A,B,C,D" in done.out


def test_what_kept_records_lack_is_undecided_if_it_was_asked_for(here: Here, tmp_path: Path) -> None:
    """By the name of a transport, or by limits, which are of all layers."""
    kept = str(TWO_H100S)
    file = tmp_path / "limits.json"
    file.write_bytes(msgspec.json.encode(Limits(checks=[])))
    for words, asked in (
        (("-t", "aware"), set()),
        (("-t", "staged"), {"all ranks", "staged"}),
        (("--expect", str(file)), {"all ranks"}),
    ):
        done = here("check", "--from", kept, "-f", "json", *words)
        found = [each for each in findings_in(done) if "do not contain" in each["why"]]
        assert {each["layer"] for each in found if each["verdict"] == "UNDECIDED"} == asked
        assert done.code == (4 if asked else 0)


def test_each_layer_of_a_kept_check_has_its_own_records(here: Here) -> None:
    """MPI on device memory was delayed: messages in host memory and collectives were not."""
    done = here("check", "--from", str(RESULTS / "h100-x2" / "check-delay.jsonl.gz"), "--format", "json")
    layers = {each["layer"]: each for each in findings_in(done)}
    assert "6.9" in layers["MPI on device memory"]["why"]
    others = [each for name, each in layers.items() if name != "MPI on device memory"]
    assert not any("aware" in str(each.get("part")) + str(each.get("why")) for each in others)
