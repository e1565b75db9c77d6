"""What doctor must say of machines that were captured or composed (tests/machines)."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine_facts import MACHINES, NAMES, PROBES, facts_of
from volley.doctor import checks
from volley.doctor.checks import CHECKS, diagnose
from volley.machine import facts as f


def test_there_are_enough_machines_and_each_says_where_it_comes_from() -> None:
    assert len(NAMES) >= 12
    for name in NAMES:
        assert facts_of(name).note.startswith(("captured", "composed")), name


@pytest.mark.parametrize("name", NAMES)
def test_findings_are_those_expected(name: str) -> None:
    expected = json.loads((MACHINES / name / "expected.json").read_text("utf-8"))
    diagnosis = diagnose(facts_of(name))
    found = {finding.check: finding for finding in diagnosis.findings}
    assert [check for check in found if check in expected["findings"]] == list(expected["findings"])
    others = [each for each in diagnosis.findings if each.check not in expected["findings"]]
    assert not [each for each in others if each.remedy], "it must be in expected.json"
    for check, wanted in expected["findings"].items():
        finding = found[check]
        assert finding.status == wanted["status"], finding
        assert finding.said
        if finding.status != "good":
            assert finding.said == wanted["said"]
        if finding.status in {"warning", "broken"}:
            assert finding.evidence
            assert finding.remedy
        assert bool(finding.remedy) == bool(wanted.get("remedy")), finding
        for words in wanted.get("remedy", []):
            assert words in finding.remedy, finding
    assert diagnosis.exit_code == expected["exit"]


@given(st.sets(st.sampled_from(PROBES)), st.sets(st.sampled_from(PROBES)), st.sampled_from(NAMES))
def test_any_probes_may_be_lost_together(crashed: set[str], skipped: set[str], name: str) -> None:
    lost = {each: f.Probe(call="tried", error="it crashed: SIGSEGV", exit=-11) for each in crashed}
    lost |= {each: f.Probe(call="tried", skipped="no") for each in skipped}
    assert len(diagnose(msgspec.structs.replace(facts_of(name), **lost)).findings) == len(CHECKS)


def test_facts_survive_their_own_encoding() -> None:
    for name in NAMES:
        facts = facts_of(name)
        assert f.decode(f.encode(facts), name) == facts


def test_checks_read_nothing_but_their_argument() -> None:
    """The half that judges imports no module that could look at this machine, and calls no built-in that could."""
    allowed = {"__future__", "collections", "msgspec", "re", "shlex", "statistics", "volley"}
    ours = {"volley.doctor.checks", "volley.doctor.findings", "volley.doctor.remedies"}
    lower = {
        f"volley.{name}"
        for name in (
            "machine.cuda_releases",
            "machine.facts",
            "machine.hardware",
            "machine.distribution",
            "text",
            "units",
        )
    }
    for path in [*Path(checks.__path__[0]).glob("*.py"), Path(checks.__path__[0]).parent / "remedies.py"]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                assert module
                assert module.partition(".")[0] in allowed, (path.name, module)
                assert not module.startswith("volley") or module in {*ours, *lower}, (path.name, module)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"open", "exec", "eval", "__import__"}, path.name


def test_every_check_is_needed_after_what_it_needs() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    for number, check in enumerate(CHECKS):
        assert set(check.needs) <= set(names[:number]), check.name


def test_captured_facts_hold_no_private_path() -> None:
    text = (MACHINES / "no-gpu" / "facts.json").read_text("utf-8")
    assert not [word for word in ("/home/", "/root", "/tmp") if word in text]
