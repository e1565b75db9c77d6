"""``import volley``: points, reports and comparisons are those of the commands, and the notebook of docs shows them."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import notebook
import volley
from comparison_records import launches, write
from volley import cli
from volley.errors import MachineError, UserError
from volley.report.csv import text_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
RECORDS = (
    *sorted((ROOT / "schema/examples").glob("*.jsonl")),
    *(RESULTS / name for name in ("h100-x2/pingpong-after.jsonl.gz", "h200-x2/jacobi.jsonl", "h200-x4/matrix.jsonl")),
)
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)


def shown(capsys: Capture, *words: str) -> str:
    cli.main(words)
    return capsys.readouterr().out


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.name}/{path.name}")
@pytest.mark.usefixtures("no_pandas")
def test_points_are_the_rows_of_each_launch(path: Path, capsys: Capture) -> None:
    rows = list(csv.DictReader(io.StringIO(shown(capsys, "show", str(path), "--each", "launch", "-f", "csv", "-q"))))
    points = volley.load(path).points
    assert len(points) == len(rows) > 0
    by_launch = sorted(rows, key=lambda row: int(row["launch"]))  # the command has the launches of a benchmark together
    for point, row in zip(sorted(points, key=lambda point: point["launch"]), by_launch, strict=True):
        assert {name: text_of(point[name]) for name in row} == row
        assert {*point} - {*row} >= {"machine", "settings"}


@pytest.mark.usefixtures("no_pandas")
def test_a_point_has_its_machine_and_settings() -> None:
    before, after = (volley.load(RESULTS / f"h100-x2/rendezvous-{name}.jsonl") for name in ("default", "from-8"))
    (machine,) = {point["machine"] for point in before.points}
    assert machine == "2 × NVIDIA H100 80GB HBM3, Intel(R) Xeon(R) Processor, Open MPI v5.0.11"
    assert not any("UCX_RNDV_THRESH" in point["settings"] for point in before.points)
    assert all("UCX_RNDV_THRESH=8" in point["settings"] for point in after.points)


def test_a_screen_is_one_text_in_a_notebook_too(monkeypatch: pytest.MonkeyPatch) -> None:
    run = volley.load(RESULTS / "h200-x2/volley.jsonl")
    text = str(run)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")  # ipykernel sets it
    assert str(run) == text != ""


def test_several_files_are_one_run_and_each_launch_counts_once(capsys: Capture) -> None:
    first, second = (str(RESULTS / f"h200-x2/{name}.jsonl") for name in ("volley", "matrix"))
    run = volley.load([first, second, first])
    assert run.files == [first, second]
    assert len(run.logs) == 5
    assert str(run) == shown(capsys, "show", first, second)
    assert run._repr_html_().startswith("<pre>volley ")
    with pytest.raises(UserError, match="no file, saved run or reference of this name"):
        volley.load("nowhere")
    with pytest.raises(UserError, match=r"h100-x2 is a published reference, .*: volley compare h100-x2 RECORDS"):
        run.compare("h100-x2")


@pytest.mark.usefixtures("no_pandas")
def test_without_pandas_a_data_frame_is_refused_with_the_command_that_installs_it() -> None:
    with pytest.raises(MachineError, match=r"needs the package pandas: .*install .*\[pandas\]"):
        volley.load(RESULTS / "h200-x2/volley.jsonl").to_pandas()


def test_a_data_frame_has_the_types_of_the_columns() -> None:
    pytest.importorskip("pandas")
    run = volley.load(RESULTS / "h200-x2/volley.jsonl")
    types = {name: run.points[name].dtype.kind for name in ("size_bytes", "latency_s", "launch")}
    assert types == {"size_bytes": "i", "latency_s": "f", "launch": "i"}
    assert run.points is run.points
    assert run.to_pandas() is not run.points


@pytest.mark.slow
def test_a_report_is_the_page_of_the_command(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    path = str(RESULTS / "h200-x2/volley.jsonl")
    assert cli.main(["report", path, "-o", str(tmp_path / "command.html"), "-q"]) == 0
    page = volley.load(path).report()
    page.save(tmp_path / "api.html")
    assert (tmp_path / "api.html").read_bytes() == (tmp_path / "command.html").read_bytes()
    files = [str(RESULTS / f"h100-x2/rendezvous-{name}.jsonl") for name in ("default", "from-8")]
    assert cli.main(["compare", *files, "-o", str(tmp_path / "command.html"), "-q"]) == 2  # it exists
    assert cli.main(["compare", *files, "-o", str(tmp_path / "command.html"), "-q", "--force"]) == 0
    volley.load(files[0]).compare(files[1]).report().save(tmp_path / "api.html")
    assert (tmp_path / "api.html").read_bytes() == (tmp_path / "command.html").read_bytes()
    frame = page._repr_html_()
    assert frame.count('"') == 4  # what is inside the frame cannot end it
    assert "<script" not in frame


@pytest.mark.usefixtures("no_pandas")
def test_a_comparison_has_the_verdicts_of_the_command(tmp_path: Path, capsys: Capture) -> None:
    files = [
        str(write(tmp_path / f"{name}.jsonl", launches(seed, slower={"aware": 1.1**seed})))
        for seed, name in enumerate("xy")
    ]
    compared = volley.load(files[0]).compare(files[1])
    (series,) = json.loads(shown(capsys, "compare", *files, "-f", "json"))["series"]
    assert compared.points == series["data"]
    assert str(compared) == shown(capsys, "compare", *files)
    assert compared.finding.startswith("CHANGED: aware is ")
    with pytest.raises(UserError, match="contain the same launch"):
        volley.load(files[0]).compare(files)


@pytest.mark.usefixtures("no_pandas")
def test_a_measurement_is_that_of_the_command() -> None:
    run = volley.measure("pingpong", sizes=[8, 65536], transport="host", launches=2, iterations=5, ranks=None)
    assert [(point["size_bytes"], point["launch"]) for point in run.points] == [(8, 1), (65536, 1), (8, 2), (65536, 2)]
    assert all(point["latency_s"] > 0 for point in run.points)
    assert volley.load("last").files == run.files  # it is kept
    with pytest.warns(UserWarning, match="FAILED: host[+]flip"):
        bad = volley.measure("pingpong", sizes="8", transport="host+flip", launches=1, iterations=5)
    assert [point["status"] for point in bad.points] == ["failed"]


def test_a_measurement_that_is_not_possible_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"no such option: --transports; did you mean --transport\?"):
        volley.measure("pingpong", transports="host")
    half = {"element": "half", "transport": "host", "sizes": 8, "launches": 1}
    with pytest.raises(MachineError, match="every point was skipped: the MPI standard has no type for half"):
        volley.measure("collective", operation="allreduce", **half)
    with pytest.warns(UserWarning, match="asked for and not measured: allreduce"):
        volley.measure("collective", operation="allreduce,broadcast", iterations=5, **half)
    monkeypatch.setenv("VOLLEY_ENGINE", "/bin/false")
    with pytest.raises(MachineError, match="the engine /bin/false does not start"):
        volley.measure("pingpong", transport="host")


@pytest.mark.parametrize("wrong", [5, None, [], [3]])
def test_what_is_no_file_is_refused_with_a_sentence(wrong: Any) -> None:
    with pytest.raises(UserError, match="takes files of records, or ids or names of saved runs, not"):
        volley.load(wrong)


def test_import_volley_loads_nothing_else() -> None:
    program = "import sys; before = set(sys.modules); import volley; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["__future__", "volley"]
    assert {"load", "measure"} <= set(dir(volley))


@pytest.mark.slow
def test_the_notebook_shows_what_its_cells_return(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(notebook.NOTEBOOK.parent)
    kept = json.loads(notebook.NOTEBOOK.read_text("utf-8"))
    shown = [
        [output["data"] for cell in each["cells"] for output in cell.get("outputs", ())]
        for each in (kept, notebook.executed(kept))
    ]
    assert shown[0] == shown[1] != []
