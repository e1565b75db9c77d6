"""The files for other programs, with programs in place of volley and scontrol; a real output follows its schema."""

import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from the_command import program
from volley.check import formats
from volley.check.findings import CheckFinding

ROOT = Path(__file__).parents[2]
PROLOG = ROOT / "integrations/slurm/prolog.sh"
NHC = ROOT / "integrations/nhc/volley.nhc"
EVIL = "$(touch evil) `touch evil`"


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"} | variables
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("code", "drains"), [(0, False), (1, True), (3, False), (4, False), (127, False)])
def test_slurm_and_nhc_follow_the_exit_code(tmp_path: Path, code: int, drains: bool) -> None:
    program(tmp_path / "volley", f"echo 'FAIL {EVIL}'\nexit {code}")
    program(tmp_path / "scontrol", 'echo "$@" >> asked')
    program(tmp_path / "squeue", '[ -z "$SLURM_JOB_ID" ] || echo 7')
    assert run(tmp_path, str(PROLOG), SLURMD_NODENAME="cn1", SLURM_JOB_ID="7").returncode == drains
    asked = tmp_path / "asked"
    assert asked.exists() == drains
    assert not drains or "NodeName=cn1 State=DRAIN Reason=volley check: " in asked.read_text()
    nhc = 'log() { echo "$@"; }; die() { shift; echo "$@"; }; . "$0"; check_volley --budget 20'
    done = run(tmp_path, "bash", "-c", nhc, str(NHC))
    assert done.returncode == drains
    assert (EVIL in done.stdout) == (code != 0)
    assert not (tmp_path / "evil").exists()


def test_a_node_where_others_compute_is_not_checked(tmp_path: Path) -> None:
    program(tmp_path / "volley", "touch checked; exit 1")
    program(tmp_path / "squeue", "echo 7; echo 8")
    assert run(tmp_path, str(PROLOG), SLURMD_NODENAME="cn1", SLURM_JOB_ID="7").returncode == 0
    nhc = 'log() { echo "$@"; }; die() { shift; echo "$@"; }; . "$0"; check_volley'
    done = run(tmp_path, "bash", "-c", nhc, str(NHC))
    assert (done.returncode, "busy, not checked" in done.stdout) == (0, True)
    assert not (tmp_path / "checked").exists()


def test_only_nodes_that_failed_themselves_are_drained(tmp_path: Path) -> None:
    program(tmp_path / "scontrol", 'echo "$@" >> asked')
    found = [
        CheckFinding(status="FAIL", layer="bandwidth", said=f"slow {EVIL}", nodes=("cn1",), drain=True),
        CheckFinding(status="FAIL", layer="bandwidth", said="a link", nodes=("cn2", "cn3")),
        CheckFinding(status="UNDECIDED", layer="bandwidth", said="perhaps", nodes=("cn4",)),
    ]
    out = io.StringIO()
    formats.render(found, "json", out)
    words = ["sh", str(PROLOG.with_name("drain.sh"))]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(words, input=out.getvalue(), cwd=tmp_path, env=environment, text=True, check=True)
    assert (tmp_path / "asked").read_text() == f"update NodeName=cn1 State=DRAIN Reason=volley: slow {EVIL}\n"
    assert not (tmp_path / "evil").exists()


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed here")
def test_shellcheck_has_nothing_to_say() -> None:
    subprocess.run(["shellcheck", PROLOG, PROLOG.with_name("drain.sh")], check=True)
    subprocess.run(["shellcheck", "--shell=bash", NHC], check=True)


def test_a_check_follows_its_schema() -> None:
    finding = CheckFinding(status="UNDECIDED", layer="all ranks", said="no yardstick")
    out = io.StringIO()
    formats.render([finding], "json", out, ["cn1"])
    text = out.getvalue()
    Draft202012Validator(json.loads((ROOT / "schema/data.schema.json").read_text("utf-8"))).validate(json.loads(text))


@pytest.mark.skipif(not shutil.which("reframe"), reason="ReFrame is not installed here")
def test_reframe_reads_verdict_and_numbers(tmp_path: Path) -> None:
    row = {"size_bytes": 8, "status": "ok", "verified": True, "latency_s": 1e-6}
    rows = [row, {"size_bytes": 1 << 20, "status": "ok", "bandwidth_Bps": 1e9}]
    (tmp_path / "check").write_text(json.dumps({"exit_code": 0, "findings": []}))
    (tmp_path / "pingpong").write_text(json.dumps({"series": [{"data": rows}]}))
    program(tmp_path / "volley", f'cat "{tmp_path}/$1"')
    test = str(ROOT / "integrations/reframe/volley_check.py")
    done = run(tmp_path, "reframe", "--prefix", str(tmp_path), "--exec-policy=serial", "-c", test, "-r")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "P: latency_8B: 1e-06 s" in done.stdout


def note(calls: dict[str, list[Any]], name: str) -> Any:
    return lambda *words, **named: calls[name].append((words, named))


def ramble_application(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """What the definition tells Ramble, with functions that note it in place of Ramble's."""
    calls: dict[str, list[Any]] = defaultdict(list)
    appkit = ModuleType("ramble.appkit")
    appkit.ExecutableApplication = object  # type: ignore[attr-defined]
    for name in ("tags", "executable", "workload", "workload_variable", "figure_of_merit", "success_criteria"):
        setattr(appkit, name, note(calls, name))
    monkeypatch.setitem(sys.modules, "ramble", ModuleType("ramble"))
    monkeypatch.setitem(sys.modules, "ramble.appkit", appkit)
    runpy.run_path(str(ROOT / "integrations/ramble/repo/applications/volley/application.py"))
    return calls


def test_ramble_finds_verdict_and_latency_in_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = ramble_application(monkeypatch)
    words = (sys.executable, "-m", "volley", "show", "results/h200-x2/volley.jsonl", "--format", "json")
    measured = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    out = io.StringIO()
    formats.render([CheckFinding(status="UNDECIDED", layer="all ranks", said="no yardstick")], "json", out)
    checked = out.getvalue()
    [(_, success)] = calls["success_criteria"]
    regexes = {words[0]: named["fom_regex"] for words, named in calls["figure_of_merit"]}
    times = [found["t"] for line in measured.splitlines() if (found := re.match(regexes["latency"], line))]
    rows = {row["latency_s"] for series in json.loads(measured)["series"] for row in series["data"]}
    assert rows - {None} <= set(map(float, times))
    codes = [found["code"] for line in checked.splitlines() if (found := re.match(regexes["exit code"], line))]
    assert codes == ["4"]
    assert all(any(re.match(success["match"], line) for line in text.splitlines()) for text in (measured, checked))


def test_benchpark_runs_the_workloads_of_ramble(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: dict[str, list[Any]] = defaultdict(list)
    kept = ("add_experiment_variable", "set_required_variables", "add_package_spec")
    base = type("Experiment", (), {name: note(calls, name) for name in kept})
    kinds = SimpleNamespace(Mpionly="mpi")
    model = {"ProgrammingModel": lambda kind: type(kind, (), {}), "ProgrammingModelType": kinds}
    parts = {"directives": {"variant": note(calls, "variant")}, "experiment": {"Experiment": base}}
    monkeypatch.setitem(sys.modules, "benchpark", ModuleType("benchpark"))
    for part, names in (parts | {"programming_model": model}).items():
        module = ModuleType(f"benchpark.{part}")
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    definition = runpy.run_path(str(ROOT / "integrations/benchpark/experiments/volley/experiment.py"))
    experiment = definition["Volley"]()
    variants = {words[0]: named for words, named in calls["variant"]}
    experiment.name = "volley"
    experiment.spec = SimpleNamespace(variants={name: (named["default"],) for name, named in variants.items()})
    experiment.compute_applications_section()
    experiment.compute_package_section()
    ramble = ramble_application(monkeypatch)
    assert set(variants["workload"]["values"]) == {words[0] for words, _ in ramble["workload"]}
    names = {words[1] for words, _ in calls["add_experiment_variable"]}
    assert names == {"n_nodes", "n_ranks"} | {words[0] for words, _ in ramble["workload_variable"]}
