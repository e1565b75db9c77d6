"""``volley doctor`` as a user runs it."""

import json
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from machine_facts import MACHINES, kept
from screens import check_screen
from the_command import BUSY, Command, program
from volley import cli
from volley.doctor.checks import CHECKS, diagnose
from volley.doctor.findings import Diagnosis
from volley.machine import facts as f
from volley.machine.capture import Skip
from volley.machine.cuda_driver import CudaDriver
from volley.text import clean


def doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["doctor", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# --------------------------------------------------------------------------------------------- kept facts


def test_lines_of_a_narrow_terminal_have_no_blanks_at_their_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    lines = clean(doctor(capsys, "--from", kept("no-gpu"))[1].encode()).splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line.lstrip().startswith("·")] == []
    out = doctor(capsys, "--from", kept("no-gpu"))[1]
    assert re.findall(r" (?:\x1b\[0m)?$", out, re.M) == []


@pytest.mark.parametrize("option", ["verbose", "device-query"])
def test_other_screens_are_those_that_were_looked_at(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, screen, err = doctor(capsys, "--from", kept("t4x4"), f"--{option}")
    check_screen(MACHINES / f"t4x4/doctor-{option}.txt", screen)
    assert (code, err) == (0, "")


def test_json_is_one_document_of_its_type(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = doctor(capsys, "--from", kept("acs-on"), "--format", "json")
    assert code == 1
    diagnosis = msgspec.json.decode(out, type=Diagnosis)
    document = json.loads(out)
    assert list(document) == ["diagnosis", "volley", "captured_at", "note", "counts", "findings"]
    assert document["diagnosis"] == 1
    keys = {"check", "layer", "status", "said", "evidence", "remedy", "also", "explains"}
    assert all(set(finding) == keys for finding in document["findings"])
    assert sum(diagnosis.counts.values()) == len(document["findings"]) == sum(not check.hosts for check in CHECKS)


def test_what_a_machine_says_is_shown_and_not_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (MACHINES / "t4x4" / "facts.json").read_text("utf-8")
    evil = text.replace("Tesla T4", "Tesla \\u001b[2J\\u202eT4").replace("550.54.14", "$(reboot)\\n\\u0007[bold]")
    file = tmp_path / "facts.json"
    file.write_text(evil, "utf-8")
    for words in (("-v",), ("--device-query",)):
        _, page, _ = doctor(capsys, "--from", str(file), *words)
        assert "\\x1b[2J\\u202eT4" in page
        assert all(line.isprintable() for line in page.splitlines())
    assert "[bold]" in doctor(capsys, "--from", str(file), "-v")[1]


def test_device_query_leaves_out_what_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    code, page, _ = doctor(capsys, "--from", kept("acs-on"), "--device-query")
    assert code == 0
    assert "CUDA Capability Major/Minor version number:" in page
    assert "Memory Bus Width" not in page


def test_device_query_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = doctor(capsys, "--from", kept("t4x4"), "--device-query", "--format", "json")
    assert len(msgspec.json.decode(out, type=f.CudaFacts).devices) == 4


# ------------------------------------------------------------------------------------------------ bad requests


def test_a_library_that_does_not_load_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volley.machine.cuda_driver.load", lambda name: (None, f"{name}: no such file"))
    with pytest.raises(Skip, match=r"^libcuda\.so\.1 does not load: no such file$"):
        CudaDriver()


@pytest.mark.parametrize("before", [None, "older facts"])
def test_a_capture_that_is_stopped_leaves_the_file_as_it_was(
    before: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "facts.json"
    if before is not None:
        file.write_text(before, "utf-8")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("volley.doctor.probes.capture", stop)
    code, _, err = doctor(capsys, "--capture", str(file))
    if before is not None:
        assert code == 2
        assert "facts.json exists: name another file, or replace it with --force" in err
        code, _, err = doctor(capsys, "--capture", str(file), "--force")
    assert (code, err) == (130, "volley: stopped\n")
    assert [path.read_text("utf-8") for path in tmp_path.iterdir()] == ([] if before is None else [before])


# --------------------------------------------------------------------------------------------- this machine


@pytest.mark.slow
def test_this_machine_is_captured_and_judged(volley: Command, tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    done = volley("doctor", "--format", "json", "--capture", str(file), **BUSY)
    assert done.code in {0, 1}
    assert done.err == f"facts: {file}\n"
    first = msgspec.json.decode(done.out, type=Diagnosis)
    statuses = {finding.check: finding.status for finding in first.findings}
    assert statuses["MPI, host memory"] == "good"
    assert statuses["launcher"] == "good"
    again = volley("doctor", "--format", "json", "--from", str(file))
    assert (again.code, again.out) == (done.code, done.out)


@pytest.mark.slow
def test_inside_a_launcher_the_ranks_of_the_job_are_judged(volley: Command) -> None:
    done = volley("doctor", "--format", "json", before=volley.mpirun(2))
    assert done.code in {0, 1}, done.err
    findings = {each.check: each for each in msgspec.json.decode(done.out, type=Diagnosis).findings}
    assert findings["launcher"].status == "good"
    assert "2 ranks" in findings["launcher"].said
    assert findings["MPI, host memory"].said.startswith("a launcher allows one job")


def test_inside_a_launcher_kept_facts_are_judged_once(volley: Command) -> None:
    done = volley("doctor", "--format", "json", f"--from={kept('t4x4')}", before=volley.mpirun(2))
    assert done.code == 0, done.err
    assert len(msgspec.json.decode(done.out, type=Diagnosis).findings) == sum(not check.hosts for check in CHECKS)


@pytest.mark.slow
def test_a_library_of_mpi_that_does_not_load_is_the_one_finding(volley: Command, tmp_path: Path) -> None:
    """What the engine was built with is known all the same."""
    for name in ("bin/mpirun", "bin/orted", "lib/libmpi.so.40"):
        program(tmp_path / name)
    facts = f.decode(volley("doctor", "--mpi", str(tmp_path), "--capture", "-").out.encode(), "facts")
    (finding,) = (each for each in diagnose(facts).findings if each.status == "broken")
    assert (finding.check, finding.remedy.partition(";")[0]) == (
        *("engine", f"load the environment module of {tmp_path}/lib/libmpi.so.40"),
    )
    assert "file too short" in finding.evidence or "invalid ELF header" in finding.evidence
    about = subprocess.run([volley.engine, "--about"], capture_output=True, check=True).stdout
    assert facts.stack.value.cuda_built == json.loads(about)["cuda_built"]


# --------------------------------------------------------------------------------------- another real MPI


def test_a_machine_with_mpich(volley: Command, mpich: Path) -> None:
    done = volley("doctor", "--mpi", str(mpich), "--format", "json")
    found = {each["check"]: (each["status"], each["said"]) for each in json.loads(done.out)["findings"]}
    assert found["MPI library"][1].startswith("MPICH")
    assert found["MPI, host memory"][0] == "good"
    assert found["launcher"] == ("good", "mpich: 2 ranks on 1 node, local ranks 0, 1")
