"""Job scripts: the exact text for every batch system, and what is refused before anything waits in a queue."""

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fake_engine import install, use
from the_command import check_transcript
from volley import cli
from volley.batch import COMMAND, script
from volley.launch.engine import About


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine of an Open MPI with its mpirun, neither of them started; volley itself is called as /v/volley."""
    installed = install(tmp_path / "bin", cuda_built="13.0")
    use(monkeypatch, installed)

    def known() -> About:
        about = msgspec.json.decode(installed.with_name("about.json").read_bytes(), type=About)
        risky = [msgspec.structs.replace(each, device_pointers="/p" in each.name) for each in about.transports]
        return msgspec.structs.replace(about, transports=tuple(risky))

    monkeypatch.setattr("volley.benchmarks.matrix.has_driver", lambda: False)
    monkeypatch.setattr(script, "this_volley", lambda: ("/v/volley",))
    monkeypatch.setattr(script, "ask_about", lambda *_: nullcontext(known))
    return installed


@pytest.mark.parametrize("name", ["scripts", "refused"])
def test_scripts_and_mistakes_are_those_that_were_looked_at(
    name: str, stand_in: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_transcript(f"batch/{name}", capsys, {str(stand_in.parent): "/mpi"})


# ------------------------------------------------------------------------------------------ what a shell makes of it

PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), min_size=1).filter(
    lambda text: text.isprintable() and "\0" not in text
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=5)
@given(
    name=PRINTABLE.filter(lambda text: text != "-" and text[0] != "~"),
    module=PRINTABLE.filter(lambda text: not text.startswith("-")),
)
def test_words_reach_volley_as_they_were_written(stand_in: Path, tmp_path: Path, name: str, module: str) -> None:
    request = ["pingpong", "--sizes", "8", f"--output={name}"]
    asked = ["--scheduler", "slurm", f"--module={module}", "--output", str(tmp_path / "job.sh")]
    text, _, _ = script.write(COMMAND.parse([*asked, "--", *request]))
    *setting, last = text.splitlines()
    stubs = "module() { printf '%s\\n' \"$@\"; }\n"
    shown = f"{stubs}{chr(10).join(setting)}\nprintf '%s\\n' {last}\n"
    done = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, check=True)
    words = ["load", module, "/v/volley", "pingpong", "--launcher", "srun", *request[1:]]
    assert done.stdout == "".join(f"{word}\n" for word in words)


@pytest.mark.parametrize(
    "words",
    [
        ("--account", "a\n#SBATCH --uid=0"),
        ("--job-name", "a\r"),
        ("--directive", "--exclusive\nrm -rf /"),
        ("--module", "cuda\nid"),
        ("--output", "a\nid"),
        ("--", "pingpong", "-o", "a\nid"),
    ],
)
def test_what_no_script_can_hold_is_refused(
    words: tuple[str, ...], stand_in: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = words if "--" in words else (*words, "--", "pingpong")
    assert cli.main(["batch", "--scheduler", "slurm", *asked]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# --------------------------------------------------------------------------------------- what would only fail later


def test_an_engine_for_no_gpus_gets_no_job_for_gpus(stand_in: Path, capsys: pytest.CaptureFixture[str]) -> None:
    between_gpus = ["batch", "--scheduler", "slurm", "--", "matrix", "--section", "uni,bi"]
    install(stand_in.parent)
    assert cli.main(between_gpus) == 3
    assert "built without CUDA and sees no GPU" in capsys.readouterr().err


def test_without_an_engine_that_starts_there_is_no_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, install(tmp_path / "bin"))
    monkeypatch.setenv("VOLLEY_FAKE", "broken")
    assert cli.main(["batch", "--scheduler", "slurm", "--", "pingpong"]) == 3
    assert "libmpi.so.40" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- delivering it


def test_a_script_goes_to_its_file(stand_in: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "my job.sh"
    words = ("batch", "--scheduler", "pbs", "-o", str(file), "--", "pingpong")
    assert cli.main(list(words)) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"submit with: qsub '{file}'\n")
    assert file.read_text(encoding="utf-8").startswith("#!/bin/bash\n#PBS -N volley\n")
    assert subprocess.run(["bash", "-n", file], check=False).returncode == 0
    file.write_text("edited", "utf-8")
    assert cli.main(list(words)) == 2
    assert (file.read_text("utf-8"), "replace it with --force" in capsys.readouterr().err) == ("edited", True)
    assert cli.main([*words[:5], "--force", *words[5:]]) == 0
    assert cli.main([*words[:4], str(tmp_path / "none" / "job.sh"), *words[5:]]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_a_script_starts_this_volley_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "volley")])
    assert script.this_volley() == (sys.executable, "-m", "volley")
    (tmp_path / "volley").touch(mode=0o755)
    assert script.this_volley() == (str(tmp_path / "volley"),)
