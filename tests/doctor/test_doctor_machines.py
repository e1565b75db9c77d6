"""What doctor must say of machines that were captured or composed (tests/machines)."""

import ast
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine_facts import MACHINES, NAMES, PROBES, facts_of, kept
from screens import check_screen
from volley import cli
from volley.doctor import checks
from volley.doctor.checks import CHECKS, diagnose
from volley.machine import facts as f


@pytest.mark.parametrize("name", NAMES)
def test_the_screen_of_each_machine_is_the_one_that_was_looked_at(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.main(["doctor", "--from", kept(name)])
    screen = capsys.readouterr().out
    check_screen(MACHINES / name / "doctor.txt", screen)
    assert code == ("\nbroken " in screen)


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_has_evidence_and_a_remedy(name: str) -> None:
    for finding in diagnose(facts_of(name)).findings:
        assert finding.said
        if finding.status in {"warning", "broken"}:
            assert finding.evidence, finding
            assert finding.remedy, finding


@given(st.sets(st.sampled_from(PROBES)), st.sets(st.sampled_from(PROBES)), st.sampled_from(NAMES))
def test_any_probes_may_be_lost_together(crashed: set[str], skipped: set[str], name: str) -> None:
    lost = {each: f.Probe(call="tried", error="it crashed: SIGSEGV") for each in crashed}
    lost |= {each: f.Probe(call="tried", skipped="no") for each in skipped}
    facts = msgspec.structs.replace(facts_of(name), **lost)
    assert len(diagnose(facts).findings) == sum(check.applies(facts) for check in CHECKS)


def test_facts_survive_their_own_encoding() -> None:
    for name in NAMES:
        facts = facts_of(name)
        assert f.decode(f.encode(facts), name) == facts


def test_checks_read_nothing_but_their_argument() -> None:
    """The half that judges imports no module that could look at this machine, and calls no built-in that could."""
    allowed = {"__future__", "collections", "itertools", "msgspec", "re", "shlex", "statistics", "typing", "volley"}
    ours = {f"volley.doctor.{name}" for name in ("checks", "findings", "mpi_settings", "remedies")}
    lower = {
        f"volley.{name}"
        for name in (
            "machine.facts",
            "machine.fallbacks",
            "machine.job_facts",
            "machine.finding",
            "machine.health",
            "machine.paths",
            "machine.place",
            "machine.variables",
            "machine.hardware",
            "machine.mpi_words",
            "machine.packages",
            "text",
            "units",
        )
    }
    for path in [*Path(checks.__path__[0]).glob("*.py"), Path(checks.__path__[0]).parent / "remedies.py"]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
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
