"""``volley doctor`` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from installations import Installation
from the_command import Command
from volley import cli
from volley.doctor.findings import Diagnosis
from volley.doctor.registry import CHECKS
from volley.machine import facts as f

MACHINES = Path(__file__).parent / "machines"


def doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["doctor", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def kept(name: str) -> str:
    return str(MACHINES / name / "facts.json")


@pytest.fixture
def here(engine: Path, volley_command: Path, tmp_path: Path) -> Command:
    return Command(volley_command, engine, tmp_path / "state")


# --------------------------------------------------------------------------------------------- kept facts


@pytest.mark.parametrize(("name", "code"), [("h200x2-no-gdrcopy", 0), ("t4x4", 0), ("acs-on", 1), ("no-driver", 1)])
def test_the_exit_code_says_whether_something_is_broken(
    name: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(capsys, "--from", kept(name))[0] == code
    assert doctor(capsys, "--from", kept(name), "--json")[0] == code


def test_the_page_has_a_line_a_finding_and_a_remedy_where_needed(capsys: pytest.CaptureFixture[str]) -> None:
    _, page, err = doctor(capsys, "--from", kept("t4x4"))
    assert err == ""
    lines = page.splitlines()
    width = max(len(check.name) for check in CHECKS)
    for check in CHECKS:
        assert sum(f"  {check.name:{width}}  " in line for line in lines) == 1, check.name
    (peers,) = [number for number, line in enumerate(lines) if line.startswith("warning         peer access")]
    assert "only 0–1 and 2–3" in lines[peers]
    assert "tried: cuDeviceCanAccessPeer: 2 of 6 pairs" in lines[peers + 1]
    assert "do: put ranks that talk most on such a pair" in lines[peers + 2]
    assert lines[-1] == "24 good, 3 warning, 2 not applicable, 1 not tested"
    assert max(map(len, lines)) <= 120


def test_json_is_one_document_of_its_type(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = doctor(capsys, "--from", kept("acs-on"), "--json")
    diagnosis = msgspec.json.decode(out, type=Diagnosis)
    document = json.loads(out)
    assert list(document) == ["diagnosis", "volley", "captured_at", "note", "counts", "findings"]
    assert document["diagnosis"] == 1
    keys = {"check", "layer", "status", "said", "evidence", "remedy"}
    assert all(set(finding) == keys for finding in document["findings"])
    assert sum(diagnosis.counts.values()) == len(CHECKS)


def test_what_a_machine_says_is_shown_and_not_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (MACHINES / "t4x4" / "facts.json").read_text("utf-8")
    evil = text.replace("Tesla T4", "Tesla \\u001b[2J\\u202eT4").replace("550.54.14", "$(reboot)\\n\\u0007[bold]")
    file = tmp_path / "facts.json"
    file.write_text(evil, "utf-8")
    for words in ((), ("--device-query",)):
        _, page, _ = doctor(capsys, "--from", str(file), *words)
        assert "\\x1b[2J\\u202eT4" in page
        assert all(line.isprintable() for line in page.splitlines())
    assert "[bold]" in doctor(capsys, "--from", str(file))[1]


def test_device_query_prints_every_attribute(capsys: pytest.CaptureFixture[str]) -> None:
    code, page, _ = doctor(capsys, "--from", kept("t4x4"), "--device-query")
    assert code == 0
    assert page.startswith("4 GPUs, CUDA driver API 12.4\n")
    for words in ("Tesla T4", "15642329088 bytes", "multiprocessors", "1590000 kHz", "256 bit", "0000:00:07.0"):
        assert words in page
    assert page.splitlines()[-4:] == [
        "    0  yes yes  no  no",
        "    1  yes yes  no  no",
        "    2   no  no yes yes",
        "    3   no  no yes yes",
    ]
    _, out, _ = doctor(capsys, "--from", kept("t4x4"), "--device-query", "--json")
    assert len(msgspec.json.decode(out, type=f.CudaFacts).devices) == 4


# ------------------------------------------------------------------------------------------------ bad requests


def test_devices_of_a_machine_that_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = doctor(capsys, "--from", kept("no-gpu"), "--device-query")
    assert (code, out) == (3, "")
    assert "libcuda.so.1 does not load" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "facts of version None"),
        ('{"facts": 2}', "facts of version 2, this volley reads 1"),
        ("", "holds no facts"),
        ("[1]", "holds no facts"),
        ('{"facts": 1}', "holds no facts of volley doctor --capture: Object missing required field"),
    ],
)
def test_a_file_without_facts_is_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "facts.json"
    file.write_text(text, "utf-8")
    code, out, err = doctor(capsys, "--from", str(file))
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_files_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor(capsys, "--from", str(tmp_path / "none"))[0] == 2
    code, _, err = doctor(capsys, "--capture", str(tmp_path / "no" / "folder"))
    assert code == 2
    assert "cannot write facts" in err
    code, _, err = doctor(capsys, "--capture", "x", "--from", kept("t4x4"))
    assert code == 2
    assert "leave one of them out" in err


# --------------------------------------------------------------------------------------------- this machine


def test_this_machine_is_captured_and_judged(here: Command, tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    done = here("doctor", "--json", "--capture", str(file))
    assert done.code in {0, 1}
    assert done.err == f"facts: {file}\n"
    first = msgspec.json.decode(done.out, type=Diagnosis)
    statuses = {finding.check: finding.status for finding in first.findings}
    assert statuses["compiler"] == "good"
    assert statuses["MPI, host memory"] == "good"
    assert statuses["launcher"] == "good"
    again = here("doctor", "--json", "--from", str(file))
    assert (again.code, again.out) == (done.code, done.out)


def test_inside_a_launcher_the_ranks_of_the_job_are_judged(here: Command) -> None:
    done = here("doctor", "--json", before=here.mpirun(2))
    assert done.code in {0, 1}, done.err
    findings = {each.check: each for each in msgspec.json.decode(done.out, type=Diagnosis).findings}
    assert findings["launcher"].status == "good"
    assert "2 ranks" in findings["launcher"].said
    assert findings["MPI, host memory"].said.startswith("inside a launcher")


def test_inside_a_launcher_kept_facts_are_judged_once(here: Command) -> None:
    done = here("doctor", "--json", f"--from={kept('t4x4')}", before=here.mpirun(2))
    assert done.code == 0, done.err
    assert len(msgspec.json.decode(done.out, type=Diagnosis).findings) == len(CHECKS)


# --------------------------------------------------------------------------------------- another real MPI


@pytest.mark.slow
def test_a_machine_with_mpich(mpich_installation: Installation) -> None:
    found = mpich_installation.doctor()
    assert found["MPI library"][1].startswith("MPICH")
    assert found["MPI, host memory"][0] == "good"
    assert found["launcher"] == ("good", "mpich: 2 ranks on 1 node, local ranks 0, 1")
