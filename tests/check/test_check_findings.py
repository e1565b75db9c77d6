"""How findings are shown, and the commands they recommend."""

import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import pytest

from screens import SCREENS, check_screen
from volley.check import COMMAND, formats
from volley.check.findings import Again, CheckFinding
from volley.machine.finding import exit_code, in_order

FINDINGS = in_order([
    CheckFinding(status="PASS", layer="bandwidth", said="all of them are equal", evidence="population"),
    CheckFinding(status="FAIL", layer='latency "8 B"', part="node cn3", said="12 % <", nodes=("cn3",), drain=True),
    CheckFinding(status="NOT JUDGED", layer="allreduce", said="1 point correct; its speed is not judged"),
    CheckFinding(status="UNDECIDED", layer="latency", part="node cn4", said="perhaps", remedy="a longer --budget"),
])  # fmt: skip


def rendered(found: Sequence[CheckFinding], form: str = "table", *, full: bool = False) -> str:
    out = io.StringIO()
    formats.render(found, form, out, full=full)
    return out.getvalue()


def test_formats_are_those_that_were_looked_at() -> None:
    parts = []
    for name in ("table", "json", "junit", "prometheus"):
        text = rendered(FINDINGS, name)
        parts.append(f"$ volley check -f {name}\n{text}[{exit_code(FINDINGS)}]\n")
        assert name != "json" or json.loads(text)["findings"]
        assert name != "junit" or ET.fromstring(text).get("tests") == "4"
    check_screen(SCREENS / "check/formats.txt", "\n".join(parts))


def test_a_command_stands_on_one_line() -> None:
    command = "volley pingpong " + " ".join(f"--option-{number} value" for number in range(20))
    finding = CheckFinding(status="UNDECIDED", layer="x", said="y", remedy=f"limits, or {command}")
    assert any(line.endswith(command) for line in rendered([finding]).splitlines())


def bad_nodes(number: int, layers: int = 2) -> list[CheckFinding]:
    """Findings of so many nodes in each layer, with long sentences, and what is undecided and passed."""
    long = "slower than the other nodes, " * 8
    names = [f"layer {layer}" for layer in range(layers)]
    found = [
        CheckFinding(status="FAIL", layer=layer, part=f"node cn{node:05}", said=long, nodes=(f"cn{node:05}",))
        for layer in names
        for node in range(number)
    ]
    found += [CheckFinding(status="UNDECIDED", layer=each, said=long, remedy=long) for each in names]
    return in_order([*found, FINDINGS[-1]])


@pytest.mark.parametrize("columns", [0, 10, 60, 200])
def test_the_screen_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = rendered(bad_nodes(300, 3)).splitlines()
    most = {0: formats.WIDTH, 10: formats.NARROWEST, 60: 60, 200: formats.WIDTH}[columns]
    assert max(map(len, lines)) <= most
    assert len(lines) <= 60


@pytest.mark.parametrize("columns", [40, 50, 120])
def test_a_finding_is_cut_with_a_mark_and_alike_on_every_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    def shown(said: str, *, full: bool = False) -> str:
        return " ".join(rendered([CheckFinding(status="FAIL", layer="l", said=said)], full=full).split())

    whole = " ".join(f"word{number}" for number in range(40))
    assert shown(whole).endswith(whole)
    assert re.search(r"word\d+ … all: volley check --full$", shown(whole * 3))
    assert shown(whole * 3, full=True).endswith(whole * 3)


@pytest.mark.parametrize(("number", "layers"), [(1, 2), (20, 2), (16_384, 2), (300, 9), (2, 100)])
def test_the_screen_of_many_nodes_is_short_and_has_each_verdict(number: int, layers: int) -> None:
    found = bad_nodes(number, layers)
    lines = rendered(found).splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= formats.WIDTH
    assert lines[1].startswith("FAIL         node cn00000: layer 0")
    if layers > 9:  # more than the screen has lines
        return
    assert {line.split()[0] for line in lines if line[0] not in " -"} >= {"FAIL", "UNDECIDED", "PASS"}
    for layer in range(layers):
        its = [line for line in lines if line.startswith("FAIL ") and f": layer {layer}: " in line]
        counted = [line.split()[1].rstrip(":") for line in its]
        assert sum(int(number) if number.isdigit() else 1 for number in counted) == number
    assert (lines[-1] == "all: volley check --full") == (number * layers > 10)
    if number < 1000:
        assert rendered(found, full=True).count("\nFAIL  ") == number * layers


@pytest.mark.parametrize(
    ("evidence", "status", "said"),
    [("none", "NOT JUDGED", True), ("link state", "PASS", True), ("reference", "PASS", False), ("data", "FAIL", False)],
)
def test_where_no_speed_was_judged_this_is_said_first(evidence: str, status: str, said: bool) -> None:
    finding = CheckFinding(status=status, layer="x", said="y", evidence=evidence)
    first, *_ = rendered(in_order([CheckFinding(status="NOT JUDGED", layer="x", said="y"), finding])).splitlines()
    assert ("no speed was judged" in first) == said


def test_what_is_recommended_has_the_options_of_the_check() -> None:
    options = COMMAND.parse(["--mpi", "wheel", "--budget", "5", "--inventory", "my list", "--launcher-arg=-x"])
    again = Again(options.typed, 60.0)
    kept = "--mpi wheel --launcher-arg=-x"
    assert again() == "volley check --inventory 'my list' --mpi wheel --launcher-arg=-x"
    assert again.longer == f"{again()} --budget 60"
    assert again.learn == f"volley check {kept} --expect FILE --learn"
    assert again("--inventory", "other") == f"volley check {kept} --inventory other"
    assert Again([["--one-switch"], ["--ranks", "4"]])("--switches", "FILE") == "volley check -n 4 --switches FILE"
    learning = Again(COMMAND.parse(["--expect", "new.json", "--learn"]).typed)
    assert learning() == learning.learn == learning.quiet == "volley check --expect new.json --learn"
    busy = Again(COMMAND.parse(["--expect", "new.json", "--learn", "--learn-busy"]).typed)
    assert busy.quiet == busy.learn == busy.learn_anew == "volley check --expect new-new.json --learn"
    faulty = Again(COMMAND.parse(["-t", "host+delay,aware,host", "--expect", "a.json"]).typed, 4000.0)
    assert faulty.learn == "volley check -t host,aware --expect a.json --learn"
    assert faulty.longer.endswith(" --budget 4000")
