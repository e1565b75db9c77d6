from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator, ValidationError

import generate
from volley.benchmarks import BENCHMARKS, named
from volley.cli import COMMANDS
from volley.run.plan import Plan, Sampling
from volley.run.records import End, Run, Transport

ROOT = Path(__file__).parents[1]


def test_generated_files_are_up_to_date() -> None:
    assert generate.drifted(ROOT) == [], "run make docs"


def test_generating_is_repeatable() -> None:
    assert generate.generate() == generate.generate()


def test_drift_is_found_and_mended(tmp_path: Path) -> None:
    assert set(generate.drifted(tmp_path)) == set(generate.generate())
    for path, text in generate.generate().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    assert generate.drifted(tmp_path) == []
    (tmp_path / "docs/cli.md").write_text("old", "utf-8")
    assert generate.drifted(tmp_path) == ["docs/cli.md"]


def test_a_list_says_whether_its_length_is_fixed() -> None:
    page = generate.generate()["docs/records.md"]
    assert "| `ranks` | list of at least 2 integer ≥ 0, ≤ 2⁶³ − 1 |" in page
    assert "| `grid` | list of 2 integer ≥ 1, ≤ 2³¹ − 1 |" in page


def test_check_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"], tmp_path) == 1
    assert not (tmp_path / "docs").exists()
    assert generate.main([], tmp_path) == 0
    assert generate.main(["--check"], tmp_path) == 0
    assert "docs/cli.md: out of date; run make docs" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["plan", "record"])
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(json.loads((ROOT / f"schema/{name}.schema.json").read_text("utf-8")))


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": 0},
        {"benchmark": "tennis"},
        {"transports": "host"},
        {"options": {"sizes_bytes": [0]}},
        {"options": {"sizes_bytes": [8], "window": 64}},
        {"nonsense": 1},
        {"sampling": {"ci": 0}},
        {"budget_s": 0},
    ],
)
def test_the_schema_refuses_what_the_types_refuse(changes: dict[str, object]) -> None:
    good = {"benchmark": "pingpong", "transports": ["host"], "options": {"sizes_bytes": [8]}}
    validator = Draft202012Validator(json.loads((ROOT / "schema/plan.schema.json").read_text("utf-8")))
    validator.validate(good)
    bad = json.dumps({**good, **changes})
    with pytest.raises(ValidationError):
        validator.validate(json.loads(bad))
    with pytest.raises((msgspec.ValidationError, KeyError)):
        typed(bad)


def typed(document: str) -> tuple[Plan, object]:
    plan = msgspec.json.decode(document, type=Plan)
    return plan, msgspec.convert(plan.options, named(plan.benchmark).plan_type)


def test_every_key_of_every_type_is_documented() -> None:
    page = (ROOT / "docs/records.md").read_text("utf-8")
    own = [type_ for each in BENCHMARKS for type_ in (each.plan_type, *each.record_types)]
    for type_ in (Plan, Sampling, Run, Transport, End, *own):
        section = re.split(r"^#", re.split(rf"^### {type_.__name__}\b.*$", page, flags=re.M)[1], flags=re.M)[0]
        for field in msgspec.structs.fields(type_):
            assert f"| `{field.encode_name}` |" in section, (type_.__name__, field.name)


def test_every_option_is_documented() -> None:
    page = (ROOT / "docs/cli.md").read_text("utf-8")
    for command in COMMANDS:
        section = page.partition(f"## {command.title}")[2].partition("\n## ")[0]
        for each in command.declared():
            for flag in each.flags:
                assert f"`{flag}`" in section, (command.name, flag)
