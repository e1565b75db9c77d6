"""Files from anywhere, numbers that nobody means, outputs that take nothing: one sentence, the right exit code."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from example_records import EXAMPLES
from the_command import LIMIT_S, Command, check_transcript
from volley import cli
from volley.benchmarks import BENCHMARKS
from volley.command.options import FORMATS
from volley.errors import MachineError, UserError
from volley.files import write_file
from volley.launch.allocation import allocation
from volley.machine.capture import isolated
from volley.records.records_file import read_runs

MACHINES = Path(__file__).parents[1] / "machines"
FACTS = (MACHINES / "h200x4" / "facts.json").read_bytes()


def alone(
    *words: str, stdout: int | None = subprocess.PIPE, closed: Sequence[int] = (), **variables: str
) -> tuple[int, str, str]:
    """The command line in a separate process, with some descriptors closed."""
    shell = " ".join(["exec", '"$@"', *(f"{number}>&-" for number in closed)])
    command = ["/bin/sh", "-c", shell, "sh", sys.executable, "-m", "volley", *words]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=environment, check=False, timeout=LIMIT_S)
    return done.returncode, (done.stdout or b"").decode(errors="replace"), done.stderr.decode()


# ---------------------------------------------------------------------------------------------------- numbers


@pytest.mark.slow
def test_values_that_nobody_means_are_refused(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VOLLEY_ENGINE", str(engine))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("random.sample", lambda those, number: list(those)[:number])  # A is launched first
    check_transcript("refused/values", capsys)


@pytest.mark.parametrize(
    ("option", "word", "complaint"),
    [
        ("--sizes", "8" * 70_000, "'888"),
        ("--gpus", "9" * 5000, "is not a list of GPU numbers"),
        ("--hosts", "a" * 70_000, "is not a list of names"),
    ],
)
def test_a_very_long_word_is_quoted_in_part(
    option: str, word: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["pingpong", option, word]) == 2
    err = capsys.readouterr().err
    assert len(err) < 5100
    assert err.startswith(f"volley: {option}: '{word[:3]}")
    assert complaint in err


def test_a_working_folder_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert cli.main(["setup", "--prefix", "mpi", "--dry-run"]) == 2
    assert "'mpi' is relative to the working folder, which was deleted" in capsys.readouterr().err
    assert cli.main(["record", "--", "true"]) == 3
    assert "cannot continue: the working folder was deleted; cd to another one" in capsys.readouterr().err


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), FileNotFoundError(2, "No such file", "/x\x1b")])
def test_whatever_the_system_refuses_is_a_sentence(
    error: OSError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("volley.show.command.read_all", lambda *_: (_ for _ in ()).throw(error))
    assert cli.main(["show", "x"]) == 3
    err = capsys.readouterr().err
    assert err.startswith("volley: cannot continue: ")
    assert len(err.splitlines()) == 1
    assert "\x1b" not in err


def test_a_long_wait_for_a_probe_is_none_that_the_system_refuses() -> None:
    assert isolated("nothing", lambda: 7, int, 1e10).value == 7


def test_any_word_can_be_planned_and_shown_in_any_locale(volley: Command) -> None:
    odd = [f"--launcher-arg={word}" for word in ("\udcff", "é", "\x1b[2J")]
    places = {"LC_ALL": "C", "PYTHONUTF8": "1", "PYTHONIOENCODING": "ascii"}
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "\udcff", "SLURM_TASKS_PER_NODE": "2"}
    done = volley("pingpong", *odd, "--tag", "\udcff", "--dry-run", **places, **job)
    assert done.code == 0, done.err
    assert json.loads(done.out)["launch"]["allocation"]["hosts"] == {"\\udcff": 2}
    assert {"\\udcff", "é", "\x1b[2J"} <= set(json.loads(done.out)["launch"]["command"])
    assert "\x1b" not in done.out + done.err
    assert "\\x1b[2J" in done.err


def test_a_domain_whose_bytes_64_bits_cannot_count_is_too_large(volley: Command) -> None:
    domain = ("2147483647", "2147483647")
    done = volley("jacobi", "--domain", *domain, "--iterations", "2", "--launcher-arg=-x", "--launcher-arg=HOME")
    assert done.code == 3  # with words for the launcher only the engine knows the hosts
    assert f"a domain of {domain[0]} x {domain[1]} points needs more than 16 EiB of memory" in " ".join(
        done.out.split()
    )
    assert "0 threads" not in done.out


def test_threads_that_the_machine_does_not_give(volley: Command) -> None:
    little = ("/bin/sh", "-c", 'ulimit -v 2000000; exec "$@"', "sh")
    done = volley("jacobi", "--domain", "9", "9", "--iterations", "2", "--threads", "1000", before=little)
    assert done.code == 3
    assert "cannot start 1000 threads, but only " in done.err
    assert "choose a smaller --threads" in done.err
    assert "signal" not in done.err.lower()


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_matrix_without_pairs_is_shown(tmp_path: Path, format_name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "none.jsonl"
    text = (EXAMPLES / "rank-matrix.jsonl").read_text(encoding="utf-8")
    file.write_text(re.sub(r'"(ranks|medians|lows|highs|samples)":\[[0-9,]*\]', r'"\1":[]', text), encoding="utf-8")
    assert cli.main(["show", str(file), "--format", format_name]) == 0
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("unit", ["1e-320", "9e-19"])
def test_times_that_no_clock_measures_are_unreadable(
    unit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tiny.jsonl"
    text = (EXAMPLES / "rank-matrix.jsonl").read_text(encoding="utf-8")
    tiny = re.sub(r'(?<="unit_s":)[0-9.e-]+', unit, text)
    assert tiny.count(unit) > 1
    file.write_text(tiny, encoding="utf-8")
    for format_name in ("table", "csv", "json"):
        cli.main(["show", str(file), "--format", format_name])
        out, err = capsys.readouterr()
        assert "UNREADABLE in launch 1 of 2: lines 3" in out + err
        assert "Warning" not in err


# ------------------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("option", ["--expect", "--inventory"])
@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b'{"', "it ends within a value"),
        (b'{\r\n "nodes"\r\n 3}', "no JSON: expected ':' in line 3"),
        (b'{"speed": 1}', "unknown field 'speed'"),
        (b"[1]", "the document must be an object, and is a list"),
        (b'{"\xe9": 1}', "the text is not UTF-8"),
        (FACTS, "has the facts of a machine: write volley doctor --from"),
    ],
)
def test_a_file_that_an_option_names_and_that_is_none_of_its_kind(
    option: str, document: bytes, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a file.json"
    file.write_bytes(document)
    assert cli.main(["check", option, str(file)]) == 2
    err = capsys.readouterr().err
    assert f"{option}" in err
    assert str(file) in err
    assert sentence in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (b"", "capture: it is empty"),
        (b"[1]", "contains no facts"),
        (b'{"facts": 1}', "facts of version 1, this volley reads 2"),
        (b'{"facts": 2}', "contains no facts saved by volley doctor --capture: field '"),
        (FACTS[: len(FACTS) // 2], "contains no facts saved by volley doctor --capture"),
        (b'{"facts":2,"x":"\xe9"}', "the text is not UTF-8"),
        (b'{"facts":2,"system":' + b"[" * 100_000, "JSON nested too deeply"),
        (b'{"facts":"\\u001b[31m"}', "contains facts of version \\x1b[31m, this volley reads 2"),
        (FACTS.replace(b'"peers": [', b'"peers": [[], ', 1), "not a table of 4 rows and columns"),
        (re.sub(rb'"gpus": \[\s*0,', b'"gpus": [-1,', FACTS), "is not a whole number >= 0"),
        (re.sub(rb'"index": 3', b'"index": 9223372036854775807', FACTS), "is not a whole number <= 65535"),
    ],
    ids=["empty", "list", "older", "no fields", "cut", "not-utf8", "deep", "version", "peers", "pair", "index"],
)
@pytest.mark.parametrize("command", [["doctor"], ["topo"], ["topo", "--format", "json"]])
def test_facts_that_are_none(
    command: list[str], document: bytes, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "facts.json"
    file.write_bytes(document)
    assert cli.main([*command, "--from", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert "\x1b" not in err
    assert len(err.splitlines()) == 1


def test_records_that_are_not_utf8_are_named_and_the_rest_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "latin.jsonl"
    run, transport, row, *more = (EXAMPLES / "rank-matrix.jsonl").read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([run, transport.replace(b'"host"', b'"h\xf6st"'), row, *more]))
    assert cli.main(["show", str(file)]) == 1
    assert "UNREADABLE in launch 1 of 2: line 2: the text is not UTF-8" in capsys.readouterr().out


def test_a_name_of_a_file_may_be_anything(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/\xff\x1b[2J.jsonl"
    Path(os.fsdecode(file)).write_bytes(b"no records\n")
    code, out, err = alone("show", os.fsdecode(file))
    assert (code, out) == (2, "")
    assert "\\udcff\\x1b[2J.jsonl contains no volley records" in err
    assert "\x1b" not in err


def test_a_file_without_an_end_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("volley.records.records_file.MAX_BYTES", 1 << 22)
    for words in (["show", "/dev/full"], ["doctor", "--from", "/dev/zero"], ["topo", "--from", "/dev/zero"]):
        assert cli.main(words) == 2
        err = capsys.readouterr().err
        assert f"cannot read {words[-1]}: it holds more than " in err
    granted = allocation({"PBS_JOBID": "1", "PBS_NODEFILE": "/dev/zero"})
    assert "it holds more than 32 MiB" in str(granted.unread)


# ---------------------------------------------------------------------------------------------------- outputs


FROM = ("--from", str(MACHINES / "h200x4" / "facts.json"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("show", str(EXAMPLES / "rank-matrix.jsonl")), ("topo", *FROM, "-o", "-"), ("--help",)],
    ids=["table", "picture", "help"],
)
def test_an_output_that_takes_nothing_more(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        code, _, err = alone(*words, stdout=full.fileno())
    assert code == 3
    assert err == "volley: cannot write: No space left on device; the output is incomplete\n"
    with Path("/dev/null").open("rb") as for_reading:
        code, _, err = alone(*words, stdout=for_reading.fileno())
    assert code == 3
    assert err == "volley: cannot write: Bad file descriptor; the output is incomplete\n"


@pytest.mark.parametrize(
    ("words", "before"),
    [
        (("report", str(EXAMPLES / "pingpong-host.jsonl"), "-o", "out.html", "--force"), b"former"),
        (("topo", *FROM, "-o", "out.svg"), None),
        (("batch", "--scheduler", "slurm", "-o", "out.sh", "--force", "--", "pingpong", *["-s8"] * 400), b"former"),
        (("references", "--add", "x", str(EXAMPLES / "rank-matrix.jsonl")), None),  # which replaces nothing
    ],
    ids=["report", "topo", "batch", "references"],
)
def test_a_file_without_room_is_not_left_in_part(words: Sequence[str], before: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / (words[words.index("-o") + 1] if "-o" in words else "volley/references/x.jsonl")
    if before:
        file.write_bytes(before)
    limited = ["/bin/sh", "-c", 'ulimit -f 1; exec "$@"', "sh", sys.executable, "-m", "volley", *words]
    # Python before 3.12.8 keeps a compiled module of which it could write a part only.
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(limited, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].endswith(f"{file.name}: File too large; make room, or name a file elsewhere"), (
        done.stderr
    )
    assert [each.read_bytes() for each in file.parent.iterdir()] == ([before] if before else [])


def test_a_file_is_replaced_where_a_link_leads_and_devices_and_pipes_get_the_bytes(tmp_path: Path) -> None:
    file, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(file)
    write_file(link, b"first")
    file.chmod(0o640)
    write_file(link, b"second")
    assert (link.is_symlink(), file.read_bytes(), file.stat().st_mode & 0o777) == (True, b"second", 0o640)
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    write_file(pipe, b"third")
    assert reader.communicate() == (b"third", None)
    write_file(Path("/dev/null"), b"fourth")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(MachineError, match="cannot write /dev/full: No space left on device; make room"):
        write_file(Path("/dev/full"), b"fifth")
    assert sorted(tmp_path.iterdir()) == [file, link, pipe]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_the_successor_of_a_file_is_never_open_to_more_readers(tmp_path: Path, mode: int) -> None:
    file, seen = tmp_path / "file", set()
    file.write_bytes(b"former")
    file.chmod(mode)

    def look(*_: object) -> None:
        with contextlib.suppress(OSError):
            seen.update(each.stat().st_mode & 0o777 for each in tmp_path.iterdir())

    umask = os.umask(0o022)
    sys.setprofile(look)  # after each call of a function
    try:
        write_file(file, b"new")
    finally:
        sys.setprofile(None)
        os.umask(umask)
    assert mode in seen
    assert all(each & ~mode == 0 for each in seen)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", mode)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_protected_file_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"former")
    file.chmod(0o440)
    with pytest.raises(UserError, match="Permission denied; name another file"):
        write_file(file, b"new")
    file.chmod(0o640)
    tmp_path.chmod(0o500)  # no file can stand beside it
    write_file(file, b"new")
    assert file.read_bytes() == b"new"
    tmp_path.chmod(0o700)


def test_what_was_measured_is_kept_where_the_report_finds_no_room(volley: Command, tmp_path: Path) -> None:
    records = tmp_path / "out.jsonl"
    words = ["matrix", "--latency", "8", "--bandwidth", "none", "--iterations", "3", "--no-remeasure", "-o"]
    with Path("/dev/full").open("wb") as full:
        command = [str(volley.volley), *words, str(records)]
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            env=volley.environment(),
            check=False,
            text=True,
            timeout=LIMIT_S,
        )
    assert done.returncode == 3
    assert done.stderr.splitlines()[-2:] == [
        f"records: {records}",
        "volley: cannot write: No space left on device; the output is incomplete",
    ]
    assert all(log.complete for log in read_runs(records, BENCHMARKS))


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_closed_descriptors_are_not_taken_by_files(closed: tuple[int, ...]) -> None:
    code, out, err = alone("show", str(EXAMPLES / "rank-matrix.jsonl"), "--format", "csv", closed=closed)
    shown = 1 not in closed
    assert (code, bool(out)) == (0 if shown else 3, shown)
    assert ("cannot write: Bad file descriptor" in err) == (closed == (1,))


def test_standard_input_that_is_closed_is_empty() -> None:
    assert alone("show", "-", closed=(0,))[::2] == (
        2,
        "volley: standard input is empty: no records were written to it\n",
    )
    assert alone("doctor", "--from", "-", closed=(0,))[0] == 2


@pytest.mark.parametrize("words", [("topo", "-o", "-"), ("topo", "--format", "json"), ("doctor",)])
def test_a_locale_without_utf8_loses_nothing(words: tuple[str, ...]) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    _, out, err = alone(*words, *FROM, **plain)
    assert err == ""
    assert out.isascii()
    if "json" in words:
        assert json.loads(out) == json.loads(alone(*words, *FROM, PYTHONIOENCODING="utf-8")[1])


@pytest.mark.parametrize("format_name", ["table", "csv"])
def test_results_and_notes_are_shown_where_only_ascii_is_known(format_name: str) -> None:
    words = ("show", str(EXAMPLES / "failed.jsonl"), "--format", format_name)
    code, out, err = alone(*words, PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert code == 1
    assert "FAILED" in out + err
    assert (out + err).isascii()


@pytest.mark.parametrize(("words", "encoding"), [(("--help",), "ascii"), (("batch", "--help"), "latin-1")])
def test_help_is_shown_in_any_encoding(words: tuple[str, ...], encoding: str) -> None:
    code, out, err = alone(*words, PYTHONUTF8="0", PYTHONIOENCODING=encoding)
    assert (code, err) == (0, "")
    assert "Usage: volley" in out


@pytest.mark.parametrize(
    "words",
    [
        ("show", str(EXAMPLES / "failed.jsonl")),
        ("show", str(EXAMPLES / "failed.jsonl"), "--format", "json"),
        ("--help",),
    ],
)
def test_a_reader_that_has_seen_enough_changes_no_exit_code(words: tuple[str, ...]) -> None:
    code, _, err = alone(*words)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert alone(*words, stdout=writing)[::2] == (code, err)
    finally:
        os.close(writing)


@pytest.mark.parametrize("words", [("show", str(EXAMPLES / "failed.jsonl")), ("doctor", *FROM)])
@pytest.mark.parametrize(("width", "taken"), [("0", "40"), ("1", "40"), ("abc", "")])
def test_a_width_in_which_nothing_fits_hides_nothing_and_an_odd_one_is_none(
    words: tuple[str, ...], width: str, taken: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for columns in (width, taken):
        monkeypatch.setenv("COLUMNS", columns)
        cli.main([*words])
        shown.append(capsys.readouterr())
    assert shown[0] == shown[1]


def test_a_measurement_goes_on_where_its_progress_cannot_be_said(volley: Command, tmp_path: Path) -> None:
    records = tmp_path / "out.jsonl"
    with Path("/dev/full").open("wb") as full:
        command = [str(volley.volley), "pingpong", "--sizes", "8,16", "--iterations", "5", "-o", str(records)]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=full, env=volley.environment(), check=False, timeout=LIMIT_S
        )
        refused = subprocess.run(
            [*command, "--sizes", "none"], stderr=full, env=volley.environment(), check=False, timeout=LIMIT_S
        )
    assert done.returncode == 0
    assert "half round trip" in done.stdout.decode()
    assert all(log.complete for log in read_runs(records, BENCHMARKS))
    assert refused.returncode == 2
