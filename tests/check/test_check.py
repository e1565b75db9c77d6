"""The command: what it starts, what it refuses, and its exit codes."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from example_records import collective
from node_limits import THIS
from the_command import Command, Finished
from the_session import ABOUT_FAKE
from volley import cli
from volley.benchmarks import BENCHMARKS
from volley.check import COMMAND, cluster, command, limits, machine
from volley.check.findings import Again
from volley.check.judged import OfCheck
from volley.check.limits import Limits
from volley.check.options import CheckOptions
from volley.errors import UserError
from volley.machine.signals import Stop
from volley.records.plan import OUT_OF_TIME
from volley.records.record_types import NotMeasured
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.run.jobs import JobContext
from volley.run.launches import LaunchCount
from volley.run.outcome import RunOutcome

AGAIN = Again()
OF_CHECK = OfCheck(asked=[], one_machine=True, nodes=1)
Here = Callable[..., Finished]


def test_the_ranks_of_one_machine_are_its_cores_or_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volley.check.cluster.gpu_count", lambda: 3)
    monkeypatch.setattr("volley.check.cluster.cores", lambda: 40)
    assert cluster.ranks_and_transports(CheckOptions(), JobContext(ABOUT_FAKE))[0] == 16
    on_gpus = CheckOptions(transport=("staged/pinned+flip",))
    assert cluster.ranks_and_transports(on_gpus, JobContext(ABOUT_FAKE))[0] == 3


@pytest.mark.long
def test_a_check_of_one_machine(volley: Command, tmp_path: Path) -> None:
    """Without limits a virtual machine passes by what is published of equal cores, or is not judged."""
    file = tmp_path / "limits.json"
    words = ("check", "--format", "json", "--ranks", "2", "-o", str(tmp_path / "records.jsonl"), "--force")
    words = (*words, "--budget", "20", "--expect", str(file))
    done = volley(*words, "--learn", "--learn-busy")
    found = json.loads(done.out)["findings"]
    assert done.code == 0, done.err
    assert {each["verdict"] for each in found} <= {"PASS", "NOT JUDGED"}
    (learned,) = limits.read_limits(file).checks
    assert "pingpong among all 2 ranks: host, 8 B" in learned.seconds
    factors = (0.8, 0.9, 1, 1.1, 1.2)
    wide = [{name: each * factor for name, each in learned.seconds.items()} for factor in factors]
    checks = [msgspec.structs.replace(learned, seconds=each) for each in wide]
    file.write_bytes(msgspec.json.encode(Limits(checks=checks)))
    again = ("check", "--format", "json", "--from", str(tmp_path / "records.jsonl"), "--expect", str(file))
    done = volley(*again)
    assert done.code in (0, 4), done.err  # 4: the limits are wide
    assert {each["yardstick"] for each in json.loads(done.out)["findings"]} == {"limits"}


@pytest.mark.slow
def test_a_node_without_a_rank_does_not_pass(volley: Command, tmp_path: Path) -> None:
    """The launcher put both ranks on one of the two hosts."""
    done = volley("check", "--hosts", "localhost,127.0.0.1", "--budget", "3", "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 4, done.err
    kept = volley("check", "--from", str(tmp_path / "r.jsonl"))
    assert kept.code == 4
    for out in (done.out, kept.out):
        assert "the ranks were on 1 of 2 nodes" in out


@pytest.mark.slow
def test_a_rank_that_hangs_fails(volley: Command, tmp_path: Path) -> None:
    words = ("--ranks", "2", "--transport", "host+hang", "--watchdog", "1", "--budget", "60")
    done = volley("check", *words, "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 1, done.err
    assert "no progress" in done.out
    assert {log.run.plan.watchdog_s for log in read_runs(tmp_path / "r.jsonl", BENCHMARKS) if log.run} == {1.0}
    kept = volley("check", "--from", str(tmp_path / "r.jsonl"))
    assert kept.code == 1
    assert kept.out.splitlines()[:4] == done.out.splitlines()[:4], "the verdicts, and why it failed"


def test_every_layer_of_a_machine_has_the_mpi_and_the_launcher_that_were_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(command.Check, "launches", lambda _, layer, __, options: asked.update({layer: options}) or [])
    words = ["--mpi", "/opt/a b/mpi", "--launcher", "mpich", "--launcher-arg=--x", "--launcher-arg", "y"]
    options: Any = COMMAND.parse(words)
    nothing: Any = None
    with Stop() as stop:
        command._machine(command.Check(options, nothing, stop, 60.0, AGAIN, OF_CHECK), 2)
    starts = {(each.job.mpi, each.job.launcher, each.job.launcher_arg) for each in asked.values() if each.job.launches}
    assert starts == {("/opt/a b/mpi", "mpich", ("--x", "y"))}
    assert len(asked) == len(machine.layers(2))


@pytest.mark.parametrize(("reason", "found"), [(OUT_OF_TIME, []), ("no NCCL", ["NOT POSSIBLE"])])
def test_what_the_budget_left_out_is_judged_once(
    monkeypatch: pytest.MonkeyPatch, reason: str, found: list[str]
) -> None:
    """By the layer, which names the longer budget; that all of it was skipped is no reason of its own."""
    log = RunLog(records=[collective("allreduce", [], 8, status="skipped", reason=reason)])
    outcome = RunOutcome(3, ("volley: every point was skipped",), ends_session=True)
    session = SimpleNamespace(
        jobs=SimpleNamespace(count=LaunchCount(1, 1)), run=lambda *_: None, logs=[log], outcomes=[outcome]
    )
    monkeypatch.setattr(command, "prepare", lambda *_: session)
    nothing: Any = None
    with Stop() as stop:
        check = command.Check(COMMAND.parse([]), nothing, stop, 60.0, AGAIN, OF_CHECK)
        check.launches("NCCL allreduce", nothing, nothing)
    assert [each.verdict for each in check.unmeasured] == found


@pytest.mark.slow
def test_wrong_data_is_judged_before_limits(volley: Command, tmp_path: Path) -> None:
    file = tmp_path / "limits.json"
    checked = limits.Checked(host="a", machine=THIS, seconds={"x": 1.0})
    file.write_bytes(msgspec.json.encode(Limits(checks=[checked] * limits.FEWEST)))
    words = ("--format", "json", "--ranks", "2", "--transport", "host+flip", "--budget", "20", "--expect", str(file))
    done = volley("check", *words, "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 1, done.err
    document = json.loads(done.out)
    (wrong,) = {each["nodes"][0] for each in document["findings"] if each["yardstick"] == "data"}
    assert document["nodes"] == [wrong]
    shown = volley("show", str(tmp_path / "r.jsonl"))
    assert "wrong data arrived" in shown.out
    assert "what was measured: volley show" in shown.out


def test_a_wrong_name_is_refused_before_anything_is_measured(here: Here, tmp_path: Path) -> None:
    done = here("check", "-t", "bogus", "-o", str(tmp_path / "r.jsonl"))
    assert (done.code, done.out) == (2, "")
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--switches", "cn1 leaf1\ncn2 leaf2\n", r"does not name \S+: it names 2 nodes from cn1 on"),
        (
            "--inventory",
            '{"gpuz": 2}',
            r"unknown field 'gpuz'; write e.g. .*; other keys: nodes, cpu, gpu, nvlinks, nics and memory_bytes$",
        ),
        ("--inventory", '{"gpus": 0, "nvlinks": 18}', 'leave out that or "nvlinks"'),
        ("--inventory", '{"gpus": "two"}', "gpus must be a whole number, and is text; "),
        ("--inventory", '{"gpus": 1.5}', "gpus must be a whole number, and is a number with decimals; "),
        ("--inventory", '{"gpu":1', "is not an inventory: it ends within a value; "),
        ("--expect", "{", "it ends within a value; --learn makes one"),
        (
            "--expect",
            '{"version": 3, "checks": {}}',
            r"file: written by a newer volley \(limits version 3, this volley reads version 2\): upgrade",
        ),
        ("--expect", '{"version": 1}', r"by an older volley .* version 1, .* version 2\): learn again, into another"),
    ],
)
def test_a_file_that_does_not_fit_this_machine_is_refused_before_anything_is_measured(
    option: str, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text(text)
    assert cli.main(["check", option, str(tmp_path / "file")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(said, line), line


def test_one_host_is_this_machine_or_refused(here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its layers are measured here: a name that is not of this machine must get no verdict of it."""
    monkeypatch.chdir(tmp_path)
    done = here("check", "--hosts", "nosuchhost.invalid")
    assert (done.code, done.out) == (2, "")
    assert "nosuchhost.invalid is not this machine" in done.err
    assert "type volley check there, or name two hosts or more" in done.err
    full, short = f"{os.uname().nodename}.site.org", os.uname().nodename.partition(".")[0]
    monkeypatch.setenv("SLURMD_NODENAME", "cn1")
    command._refuse_another(["localhost", full, short, "cn1"])


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("bad.json", "is not a file of limits"),
        ("no/such", "there is no folder "),
        ("/proc/l.json", "cannot write limits to /proc/l.json: "),
    ],
)
def test_a_file_that_cannot_be_learned_is_refused_before_anything_is_measured(
    here: Here, tmp_path: Path, file: str, said: str
) -> None:
    (tmp_path / "bad.json").write_text("{")
    done = here("check", "--expect", str(tmp_path / file), "--learn", "-o", str(tmp_path / "r.jsonl"))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not (tmp_path / "r.jsonl").exists()


def test_the_verdict_is_shown_if_the_limits_cannot_be_written(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object) -> str:
        raise UserError("cannot write limits")

    good = NotMeasured(verdict="PASS", layer="x", why="as fast as ever", decides="")
    monkeypatch.setattr(command.Check, "launches", lambda check, *_: check.unmeasured.append(good) or [])
    monkeypatch.setattr(limits, "learn", full)
    done = here("check", "--expect", str(tmp_path / "l.json"), "--learn", "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 2
    assert "as fast as ever" in done.out
    assert done.err.endswith("volley: cannot write limits\n")


@pytest.mark.slow
def test_a_layer_has_the_time_that_the_check_has_left(volley: Command, tmp_path: Path) -> None:
    learns = ("--expect", "new.json", "--learn", "--learn-busy")
    done = volley("check", "--ranks", "2", "--budget", "0.2", "-o", str(tmp_path / "r.jsonl"), *learns)
    assert done.code == 4
    budgets = [log.run.plan.budget_s for log in read_runs(tmp_path / "r.jsonl", BENCHMARKS) if log.run]
    assert budgets
    assert max(budgets) <= 0.2
    assert "the time of this check, 0.2 s, was over" in done.out
    assert "→ volley check --expect new.json --learn --learn-busy -n 2 --budget 45\n" in done.out


def test_a_check_whose_ranks_do_not_start_says_why_once_a_layer(here: Here) -> None:
    done = here("check", "--launcher-arg=--no-such", "-f", "json")
    found = [(each["verdict"], each["layer"]) for each in json.loads(done.out)["findings"]]
    assert done.code == 3
    layers = ("messages in host memory", "allreduce in host memory", "all ranks")
    assert sorted(found) == sorted(("NOT POSSIBLE", layer) for layer in layers)
    assert all("ended with status" in each["why"] for each in json.loads(done.out)["findings"])


def test_a_job_of_a_check(here: Here) -> None:
    words = ("--scheduler", "slurm", "--nodes", "4", "--gpus-per-node", "8", "--time", "00:10:00", "--", "check")
    done = here("batch", *words)
    assert done.code == 0, done.err
    assert "#SBATCH --exclusive" in done.out
    assert "#SBATCH --ntasks=32" in done.out
