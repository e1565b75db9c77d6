import json
import re
import shlex
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator, ValidationError

import generate
from the_command import Command
from volley.benchmarks import named, read
from volley.command.commandline import load
from volley.launch.launchers import PAIR, cores
from volley.records.plan import Plan
from volley.report.columns import MEANINGS, base

ROOT = Path(__file__).parents[2]


def test_generated_files_are_up_to_date() -> None:
    assert generate.drifted(ROOT) == [], "run make docs"


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What is generated; it is generated once."""
    made = generate.generate()
    monkeypatch.setattr(generate, "generate", lambda: made)
    return made


def test_drift_is_found_and_mended(pages: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(generate.drifted(tmp_path)) == set(pages)
    assert generate.main(["--check"], tmp_path) == 1
    assert "docs/cli.md: out of date; run make docs" in capsys.readouterr().err
    assert not (tmp_path / "docs").exists()
    assert generate.main([], tmp_path) == 0
    assert generate.main(["--check"], tmp_path) == 0
    (tmp_path / "docs/cli.md").write_text("old", "utf-8")
    assert generate.drifted(tmp_path) == ["docs/cli.md"]


def test_a_list_says_whether_its_length_is_fixed() -> None:
    page = (ROOT / "docs/records.md").read_text("utf-8")
    assert "| `ranks` | list of at least 2 integer ≥ 0, ≤ 2⁶³ − 1 |" in page
    assert "| `grid` | list of 2 integer ≥ 1, ≤ 2³¹ − 1 |" in page


def test_every_column_has_one_meaning() -> None:
    columns = {base(name) for names in generate.columns_by_command().values() for name in names}
    assert columns | {"schema", "run", "date", "launch"} == set(MEANINGS)


@pytest.mark.parametrize("name", ["plan", "record", "data"])
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(json.loads((ROOT / f"schema/{name}.schema.json").read_text("utf-8")))


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": 0},
        {"benchmark": "tennis"},
        {"transports": "host"},
        {"options": {"sizes_bytes": [-1]}},
        {"benchmark": "stream", "options": {"sizes_bytes": [0]}},
        {"options": {"sizes_bytes": [8], "window": 64}},
        {"nonsense": 1},
        {"sampling": {"ci": 0}},
        {"budget_s": 0},
    ],
)
def test_the_schema_refuses_what_the_types_refuse(changes: dict[str, object]) -> None:
    good = {"benchmark": "pingpong", "transports": ["host"], "options": {"sizes_bytes": [8]}}
    validator = Draft202012Validator(json.loads((ROOT / "schema/plan.schema.json").read_text("utf-8")))
    for sizes in ([8], [0]):
        validator.validate({**good, "options": {"sizes_bytes": sizes}})
    bad = json.dumps({**good, **changes})
    with pytest.raises(ValidationError):
        validator.validate(json.loads(bad))
    with pytest.raises((msgspec.ValidationError, KeyError)):
        typed(bad)


def typed(document: str) -> tuple[Plan, object]:
    plan = msgspec.json.decode(document, type=Plan)
    return plan, msgspec.convert(plan.options, load(named(plan.benchmark).plan))


OTHERS = re.findall(
    r"^\| (?!program|---)(.*) \| (.*) \| (.*) \|$", (ROOT / "docs/other-programs.md").read_text("utf-8"), re.M
)
"""Each program, the command between backticks or that it is not measured, and a note."""
FOR_OTHERS = sorted({command.strip("`") for _, command, _ in OTHERS if command != "not measured"})


def together() -> dict[tuple[str, ...], list[str]]:
    """Commands without NCCL and GPUs; the values of an option, in which alone some of them differ."""
    found: dict[tuple[str, ...], list[str]] = {}
    for command in FOR_OTHERS:
        words = command.replace("--ranks 8", "--ranks 4").split()[1:]
        lacks_cores = "threads" in command and cores() < 2 * PAIR  # two threads of each rank need a core each
        of_gpus = any(word.startswith(("nccl", "aware", "--section")) for word in words)
        if not of_gpus and not lacks_cores:
            last = next((each for each in ("--operation", "-t") if each in words), words[-2])
            place = words.index(last)
            found.setdefault((*words[:place], *words[place + 2 :], last), []).append(words[place + 1])
    return found


@pytest.mark.long
@pytest.mark.parametrize(("words", "values"), together().items(), ids=" ".join)
def test_every_command_for_a_program_of_others_runs_without_gpus(
    volley: Command, words: tuple[str, ...], values: list[str]
) -> None:
    quick = {"transports": (), "matrix": ("--latency", "8", "--bandwidth", "64", "--iterations", "2")}
    timed = {"--cold-cache", "--in-place", "--tail"} & {*words}
    few = ("--point-time", "0.01") if timed else ("--iterations", "2")
    few *= not {"--iterations", "--point-time"} & {*words}
    usual = ("--launches", "1", *few, *("--sizes", "64") * ("--sizes" not in words))
    done = volley(*words, ",".join(dict.fromkeys(",".join(values).split(","))), *quick.get(words[0], usual))
    assert done.code == 0, done.err


def test_every_command_for_a_program_of_others_can_be_typed() -> None:
    assert len(FOR_OTHERS) > 100
    for command in FOR_OTHERS:
        benchmark, _ = read(shlex.split(command)[1:])
        assert benchmark.command == command.split()[1]
    assert all(note for _, command, note in OTHERS if command == "not measured")
