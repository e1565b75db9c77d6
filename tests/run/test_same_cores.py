"""Two runs at once on the same cores: the second one says so."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from the_session import measure
from volley import cli
from volley.run.same_cores import announced

PROGRAM = """
import os, sys
from volley.run.same_cores import announced
os.sched_setaffinity(0, {int(sys.argv[1])})
with announced():
    print("measuring", flush=True)
    sys.stdin.read()
"""


def another_on(core: int) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    other = subprocess.Popen([sys.executable, "-c", PROGRAM, str(core)], stdin=pipe, stdout=pipe, text=True)
    assert other.stdout.readline() == "measuring\n"
    return other


def test_another_run_on_the_same_cores_is_noticed_until_it_ends(
    bin_folder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with another_on(min(os.sched_getaffinity(0))) as other:
        assert measure() == 0
        said = f"another volley measures on these cores (process {other.pid}): each disturbs the other"
        assert capsys.readouterr().err.count(said) == 1
        other.communicate()
    assert measure() == 0
    assert "another volley" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_check_of_several_layers_says_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A check of one rank, of which no two messages can be timed at once."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with another_on(min(os.sched_getaffinity(0))) as other:
        assert cli.main(["check", "--ranks", "1", "--format", "json"]) == 0
        captured = capsys.readouterr()
        assert captured.err.count("another volley measures") == 1
        verdicts = {each["layer"]: each["verdict"] for each in json.loads(captured.out)["findings"]}
        assert len(verdicts) > 1
        assert verdicts["all ranks"] == "NOT JUDGED"
        other.communicate()


def test_a_run_on_other_cores_disturbs_nobody() -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core")
    with another_on(cores[0]) as other:
        os.sched_setaffinity(0, cores[1:])
        try:
            with announced() as others:
                assert others is None
        finally:
            os.sched_setaffinity(0, cores)
            other.communicate()


def test_what_another_program_calls_its_socket_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOLLEY_SPACE", "odd")
    with announced() as others:
        assert others is None
    monkeypatch.setattr(
        "pathlib.Path.read_text", lambda *_, **__: "x: @volleyodd/7/0-99,,\ny: @volleyodd/8/0-999999999\n"
    )
    with announced() as others:
        assert others is not None
        assert "(process 8)" in others
