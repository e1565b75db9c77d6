import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from example_records import EXAMPLES
from fake_engine import install
from the_command import check_transcript
from volley import cli
from volley.records.plan import Sampling
from volley.run import session
from volley.run.benchmark import Benchmark
from volley.run.jobs import sampling_part

Asked = list[tuple[str, Any]]
Ask = Callable[..., Any]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What the session was asked to measure, instead of measuring it."""
    calls: Asked = []

    def record(*parts: tuple[Benchmark, Any]) -> int:
        for benchmark, options in parts:
            if hasattr(options, "sampling"):
                sampling_part(options.sampling)
            calls.append((benchmark.name, options))
        return 0

    monkeypatch.setattr(session, "measure", record)
    return calls


@pytest.fixture
def ask(asked: Asked) -> Ask:
    """Run a command line that must be good, and return the options it became."""

    def run(*arguments: str) -> Any:
        assert cli.main(list(arguments)) == 0
        return asked[-1][1]

    return run


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command line that must be refused, and return its one sentence."""
    assert cli.main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("volley: ")
    assert captured.err.count("\n") == 1
    return captured.err


# -------------------------------------------------------------------------------------------- good requests


def test_ping_pong_has_the_tutorials_sizes_and_adaptive_sampling(ask: Ask) -> None:
    options = ask("pingpong")
    assert options.points.sizes == tuple(8 << i for i in range(28))
    assert sampling_part(options.sampling) == Sampling()
    assert options.given == options.job.given == options.output.given == frozenset()


def test_every_option_of_ping_pong_arrives(ask: Ask, tmp_path: Path) -> None:
    options = ask(
        *("pingpong", "-t", "host,null", "--transport", "aware", "-s", "8,64k", "--ci", "0.5%"),
        *("--point-time", "2", "--size-time", "9", "--tail", "--launches", "6", "--budget", "30", "--no-verify"),
        "--fresh-buffers",
        *("-n", "2", "--hosts", "a,b", "--gpus", "0, 3", "--gpu-after-init", "--share-gpu", "--launcher", "srun"),
        *("--mpi", "mpich", "--launcher-arg=--mca", "--launcher-arg", "x", "--watchdog", "5", "--dry-run"),
        *("-o", str(tmp_path / "r.jsonl"), "-f", "json"),
    )
    points, job = options.points, options.job
    assert (points.transport, points.sizes, points.fresh_buffers) == (("host", "null", "aware"), (8, 65536), True)
    assert sampling_part(options.sampling) == Sampling(ci=0.005, point_time_s=2.0, size_time_s=9.0, tail=True)
    assert (options.sampling.budget, options.sampling.verify) == (30.0, False)
    assert (job.launches, job.ranks, job.hosts, job.gpus) == (6, 2, ("a", "b"), (0, 3))
    assert (job.gpu_after_init, job.share_gpu) == (True, True)
    assert (job.mpi, job.launcher, job.launcher_arg) == ("mpich", "srun", ("--mca", "x"))
    assert (job.watchdog, job.dry_run) == (5.0, True)
    assert (options.output.output, options.output.format) == (tmp_path / "r.jsonl", "json")
    assert job.given == vars(job).keys() - {"given", "typed"}


@pytest.mark.parametrize("command", ["stream", "bandwidth"])
def test_a_stream_has_a_window_and_a_direction(ask: Ask, asked: Asked, command: str) -> None:
    options = ask(command)
    assert (options.windows.window, options.windows.direction) == (64, "uni")
    options = ask(command, "--direction", "bi", "--window", "8")
    assert (asked[-1][0], options.windows.window, options.windows.direction) == ("stream", 8, "bi")


@pytest.mark.parametrize(
    ("arguments", "sampling"),
    [
        (("--warmup", "5", "--iterations", "50"), Sampling(mode="fixed", warmup=5, iterations=50)),
        (("--warmup", "0"), Sampling(mode="fixed", warmup=0, iterations=50)),
        (("--iterations", "7"), Sampling(mode="fixed", warmup=5, iterations=7)),
        *((("--ci", text), Sampling(ci=ci)) for text, ci in ((" ±2.5 %", 0.025), ("100%", 1.0), ("2", 0.02))),
    ],
)
def test_warmup_or_iterations_mean_a_fixed_batch_and_an_interval_is_a_percentage(
    ask: Ask, arguments: tuple[str], sampling: Sampling
) -> None:
    assert sampling_part(ask("pingpong", *arguments).sampling) == sampling


# --------------------------------------------------------------------------------------------------- misuse


def test_a_request_without_sense_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], asked: Asked
) -> None:
    check_transcript("refused/command-lines", capsys)
    assert "\\x1b[31mred" in refused(capsys, "\x1b[31mred")
    assert asked == []


# ----------------------------------------------------------------------------------------------------- show


def test_show_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data = (EXAMPLES / "pingpong-host.jsonl").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert cli.main(["show", "-", "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == 3


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    """One that has gone before the first byte: test_bad_input.py."""
    paths = [tmp_path / f"{number}.jsonl" for number in range(3)]  # more than a pipe's buffer
    for path in paths:
        path.write_bytes((EXAMPLES / "launches.jsonl").read_bytes())
    command = [sys.executable, "-m", "volley", "show", *map(str, paths), "--each", "run", "-f", "json", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(10)
        process.stdout.close()
        # What must be known beside the data may be there: these launches differ by more than was asked for.
        ours = tuple(f"volley: {path}: ".encode() for path in paths)
        assert all(line.startswith(ours) for line in process.stderr.read().splitlines())
        assert process.wait() == 0


# ----------------------------------------------------------------------------------------------------- help


def test_the_version_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "1.2.3")
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == "volley 1.2.3\n"


LATER = (
    *("msgspec", "numpy", "rich", "pynvml", "subprocess", "importlib.metadata"),
    *("volley.run.session", "volley.launch.engine", "volley.records.plan", "volley.records.records_file"),
    *("volley.run.render", "volley.report.terminal"),
    *("volley.statistics.estimates", "volley.machine.nvml"),
    "volley.benchmarks.pair.results",
    *(f"volley.benchmarks.points.{module}" for module in ("records", "results", "page")),
    *("volley.batch.script", "volley.doctor.command", "volley.setup.command", "volley.topo.command"),
    "volley.tune.command",
)
"""What is needed by those who go on: to start a job, to draw, to report."""


@pytest.mark.parametrize(
    "script",
    [
        "code = 2",
        *(
            f"code = cli.main(['{name}', '--no-such-option'])"
            for name in ("pingpong", "batch", "doctor", "setup", "topo", "tune")
        ),
    ],
)
def test_reading_a_command_line_loads_nothing_heavy(script: str) -> None:
    """Rich, NumPy, the launchers and what reports are made of load where they are used: a job's start stays quick."""
    check = f"sys.exit(f'loaded {{found}}' if (found := set({LATER}) & set(sys.modules)) or code != 2 else 0)"
    done = python(f"import sys; from volley import cli; {script}; {check}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("format_name", "renderer"), [("table", "terminal"), ("csv", "csv")])
def test_a_report_is_loaded_before_a_job_gets_its_plan_and_not_before_it_starts(
    format_name: str, renderer: str, tmp_path: Path
) -> None:
    """What is loaded later would be loaded while the ranks measure; what is loaded sooner delays them."""
    engine = install(tmp_path / "bin")
    script = f"""
import sys
from volley import cli
from volley.launch import engine
from volley.run import session

def loaded():
    names = ("volley.report.{renderer}", "volley.benchmarks.pair.results", "volley.run.render")
    return [name in sys.modules for name in names]

def records(process, plan, read, really=engine.EngineProcess.records):
    assert all(loaded()), loaded()
    before = set(sys.modules)
    yield from really(process, plan, read)
    assert set(sys.modules) == before, set(sys.modules) - before

def start(*words, really=session.ask_about):
    assert not any(loaded()), loaded()
    return really(*words)

engine.EngineProcess.records, session.ask_about = records, start
sys.exit(cli.main(["pingpong", "-s", "8", "-f", "{format_name}", "-o", "{tmp_path / "r.jsonl"}"]))
"""
    path = f"{engine.parent}{os.pathsep}{os.environ['PATH']}"
    done = python(script, VOLLEY_ENGINE=str(engine), PATH=path)
    assert done.returncode == 0, done.stderr


def python(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--show-completion", shell]) == 0
    script = capsys.readouterr().out
    assert "host-to-gpu" in script
    assert "%%" not in script


def test_bash_completes_commands_options_and_their_values(engine: Path, tmp_path: Path) -> None:
    """The script is one that bash takes, and it knows what the parser knows."""
    asked = "import sys; from volley.cli import main; sys.exit(main(['--show-completion', 'bash']))"
    script = python(asked, VOLLEY_ENGINE=str(engine))
    (tmp_path / "completion.sh").write_text(script.stdout, "utf-8")
    ask = """
    source "$1"; shift
    complete=$(complete -p volley); function=${complete#*-F }; function=${function%% *}
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
    "$function"; echo "${COMPREPLY[@]}"
    """
    for words, expected in (
        (("volley", "pi"), "pingpong"),
        (("volley", "pingpong", "--forma"), "--format"),
        (("volley", "pingpong", "--rank"), ""),
        (("volley", "collective", "--rank"), "--ranks"),
        (("volley", "bandwidth", "--direction", ""), "uni bi"),
        (("volley", "pingpong", "--format", "o"), "olcf"),
        (("volley", "stream", "--format", "o"), ""),
        (("volley", "pingpong", "--transport", "nu"), "null"),
        (("volley", "references", "summ"), "summit"),
        (("volley", "compare", "summ"), "summit"),
        (("volley", "compare", "summit", str(tmp_path / "completion.")), str(tmp_path / "completion.sh")),
        (("volley", "matrix", "--section", "host"), "host-to-gpu host-to-gpu/kernel host-to-gpu/all"),
        (("volley", "list", "--format", "m"), "markdown"),
        (("volley", "collective", "--operation", "bro"), "broadcast"),
    ):
        command = ["bash", "-c", ask, "bash", tmp_path / "completion.sh", *words]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == expected
