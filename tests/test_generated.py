from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator, ValidationError

from volley import generate
from volley.records import Cell, End, Matrix, MatrixRow, PingPong, Plan, Run, Sampling, Stream, StreamPoint, Transport

ROOT = Path(__file__).parents[1]


def test_generated_files_are_up_to_date() -> None:
    assert generate.drifted(ROOT) == [], "run python -m volley.generate"


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


def test_check_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "src" / "volley" / "generate.py"
    module.parent.mkdir(parents=True)
    monkeypatch.setattr(generate, "__file__", str(module))
    assert generate.main(["--check"]) == 2
    assert "no checkout" in capsys.readouterr().err
    (tmp_path / "pyproject.toml").touch()
    assert generate.main(["--check"]) == 1
    assert not (tmp_path / "docs").exists()
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


@pytest.mark.parametrize("name", ["plan", "record"])
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(json.loads((ROOT / f"schema/{name}.schema.json").read_text("utf-8")))


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": 0},
        {"benchmark": "tennis"},
        {"transports": "host"},
        {"sizes_bytes": [0]},
        {"nonsense": 1},
        {"sampling": {"interval": 0}},
        {"budget_s": 0},
    ],
)
def test_the_schema_refuses_what_the_types_refuse(changes: dict[str, object]) -> None:
    good = {"benchmark": "pingpong", "transports": ["host"], "sizes_bytes": [8]}
    validator = Draft202012Validator(json.loads((ROOT / "schema/plan.schema.json").read_text("utf-8")))
    validator.validate(good)
    bad = json.dumps({**good, **changes})
    with pytest.raises(ValidationError):
        validator.validate(json.loads(bad))
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(bad, type=Plan)


def test_every_key_of_every_type_is_documented() -> None:
    page = (ROOT / "docs/records.md").read_text("utf-8")
    for type_ in (Plan, Sampling, Stream, Matrix, Run, Transport, PingPong, StreamPoint, MatrixRow, Cell, End):
        section = page.partition(f"### {type_.__name__}")[2].partition("###")[0]
        for field in msgspec.structs.fields(type_):
            assert f"| `{field.encode_name}` |" in section, (type_.__name__, field.name)


def test_every_option_is_documented() -> None:
    page = (ROOT / "docs/cli.md").read_text("utf-8")
    for option in (
        "--sizes",
        "--interval",
        "--warmup",
        "--iterations",
        "--launches",
        "--hosts",
        "--output",
        "--budget",
    ):
        assert f"`{option}`" in page
    for command in (
        "volley",
        "volley pingpong",
        "volley stream",
        "volley matrix",
        "volley transports",
        "volley doctor",
        "volley show RECORDS…",
    ):
        assert f"## {command}\n" in page
