"""Job scripts: the exact text for every batch system, and what is refused before anything waits in a queue."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fake_engine import ABOUT, install
from volley import benchmarks, cli
from volley.batch import COMMAND, script
from volley.batch.schedulers import SCHEDULERS
from volley.command.commandline import value_of
from volley.errors import UserError
from volley.launch.engine import About

Write = Callable[..., str]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine of an Open MPI with its mpirun, neither of them started; volley itself is called as /v/volley."""
    installed = install(tmp_path / "bin")
    monkeypatch.setenv("VOLLEY_ENGINE", str(installed))
    monkeypatch.setattr(script, "this_volley", lambda: ("/v/volley",))
    monkeypatch.setattr(script, "ask_about", lambda _: nullcontext(lambda: msgspec.convert(ABOUT, About)))
    return installed


@pytest.fixture
def write(stand_in: Path, capsys: pytest.CaptureFixture[str]) -> Write:
    """The script that a command line gives, without the line that names the stand-in."""

    def run(*words: str) -> str:
        assert cli.main(["batch", *words]) == 0, capsys.readouterr().err
        lines = capsys.readouterr().out.splitlines()
        lines.remove(f"export VOLLEY_ENGINE={stand_in}")
        return "\n".join(lines).replace(str(stand_in.parent), "/mpi") + "\n"

    return run


@pytest.fixture
def refused(stand_in: Path, capsys: pytest.CaptureFixture[str]) -> Write:
    """The sentence with which a command line is refused."""

    def run(*words: str) -> str:
        assert cli.main(["batch", *words]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        return said.err

    return run


# ----------------------------------------------------------------------------------------------- the exact text

SLURM = """\
#!/bin/bash
#SBATCH --job-name=volley
#SBATCH --output=volley.%j.out
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=00:15:00
#SBATCH --gpus-per-node=4
#SBATCH --account=abc
#SBATCH --partition=gpu
#SBATCH --exclusive

# Written by volley batch; submit with: sbatch FILE
# module is a function of login shells
command -v module >/dev/null || . /etc/profile
module load gcc cuda/12 || exit

/v/volley pingpong --launcher srun --transport all --launches 6
"""


INTERACTIVE = {
    "slurm": "salloc --job-name=volley --nodes=2 --ntasks=2 --ntasks-per-node=1 --time=00:15:00 --account=abc",
    "lsf": "bsub -Is -J volley -nnodes 2 -W 00:15 -P abc bash -l",
    "pbs": "qsub -I -N volley -l select=2:ncpus=1:mpiprocs=1 -l place=scatter -l walltime=00:15:00 -A abc",
    "age": "qrsh -g abc -N volley -l rt_AF=2 -l h_rt=00:15:00",
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_interactive_jobs(write: Write, scheduler: str) -> None:
    resource = ("--node-resource", "rt_AF") if scheduler == "age" else ()
    options = (
        "--scheduler",
        scheduler,
        "--nodes",
        "2",
        "--account",
        "abc",
        *resource,
        "--module",
        "gcc",
        "--interactive",
    )
    lines = write(*options, "--", "pingpong", "-t", "host").splitlines()
    assert lines[:3] == [INTERACTIVE[scheduler], "", "# In the shell that it opens:"]
    assert "module load gcc" in lines
    assert "|| exit" not in " ".join(lines)
    assert lines[-1] == f"/v/volley pingpong {'--launcher srun ' if scheduler == 'slurm' else ''}-t host"


def test_an_interactive_job_has_no_script(refused: Write) -> None:
    assert "--interactive writes no script" in refused("--scheduler", "slurm", "--interactive", "-o", "job.sh")


def test_slurm(write: Write) -> None:
    asked = ("--nodes", "2", "--gpus-per-node", "4", "--account", "abc", "--partition", "gpu")
    more = ("--directive=--exclusive", "--module", "gcc", "--module", "cuda/12")
    command = ("pingpong", "--transport", "all", "--launches", "6")
    assert write("--scheduler", "slurm", *asked, *more, "--", *command) == SLURM


LSF = """\
#!/bin/bash
#BSUB -J volley
#BSUB -o volley.%J.out
#BSUB -nnodes 2
#BSUB -W 00:11
#BSUB -P ABC123
#BSUB -q batch

# Written by volley batch; submit with: bsub < FILE

/v/volley pingpong --transport staged/pinned
"""


def test_lsf_with_jsrun(write: Write) -> None:
    asked = ("--nodes", "2", "--account", "ABC123", "--queue", "batch", "--time", "00:10:30")
    assert write("--scheduler", "lsf", *asked, "--", "pingpong", "--transport", "staged/pinned") == LSF


def test_lsf_with_an_mpirun_asks_for_slots(write: Write) -> None:
    text = write("--scheduler", "lsf", "--launcher", "openmpi", "--nodes", "2", "--gpus-per-node", "2", "--")
    assert '#BSUB -n 2\n#BSUB -R "span[ptile=1]"\n#BSUB -W 00:15\n#BSUB -gpu "num=2"\n' in text
    assert text.endswith("\n/v/volley --launcher openmpi\n")


PBS = """\
#!/bin/bash
#PBS -N twice
#PBS -j oe
#PBS -l select=2:ncpus=2:mpiprocs=2:ngpus=2
#PBS -l place=scatter
#PBS -l walltime=01:00:05
#PBS -A abc
#PBS -q gpu

# Written by volley batch; submit with: qsub FILE
cd "$PBS_O_WORKDIR" || exit

/v/volley transports --ranks 4
"""


def test_pbs(write: Write) -> None:
    asked = ("--nodes", "2", "--gpus-per-node", "2", "--account", "abc", "--queue", "gpu", "--time", "1:00:05")
    assert write("--scheduler", "pbs", *asked, "--job-name", "twice", "-n", "4", "transports") == PBS


AGE = """\
#!/bin/bash
#$ -N volley
#$ -S /bin/bash
#$ -cwd
#$ -j y
#$ -l rt_AF=1
#$ -l h_rt=00:15:00

# Written by volley batch; submit with: qsub -g GROUP FILE
# module is a function of login shells
command -v module >/dev/null || . /etc/profile
module load cuda/11.2/11.2.2 || exit

/v/volley stream --direction bi
"""


def test_grid_engine(write: Write) -> None:
    asked = ("--account", "GROUP", "--node-resource", "rt_AF", "--module", "cuda/11.2/11.2.2")
    assert write("--scheduler", "age", *asked, "--", "stream", "--direction", "bi") == AGE


BETWEEN_GPUS = ("matrix", "--section", "uni,bi")


@pytest.fixture
def with_cuda(stand_in: Path) -> None:
    """The stand-in's engine was built with CUDA."""
    install(stand_in.parent, cuda_version="13.0")


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("slurm", "--gpus-per-node", "4"), ["--ntasks=1", "--gpus-per-node=4"]),
        (("pbs", "--gpus-per-node", "4"), ["select=1:ncpus=1:mpiprocs=1:ngpus=4"]),
        (("age", "--node-resource", "rt_AF"), ["rt_AF=1"]),
        (("lsf",), ["-nnodes", "1"]),
        (("lsf", "--launcher", "jsrun"), ["-nnodes", "1"]),
        (("lsf", "--launcher", "openmpi", "--gpus-per-node", "2"), ["num=2"]),
    ],
)
def test_between_the_gpus_of_a_node_nothing_starts_ranks(
    write: Write, with_cuda: None, words: tuple[str, ...], asked: list[str]
) -> None:
    text = write("--scheduler", *words, "--", *BETWEEN_GPUS)
    assert text.endswith("\n\n/v/volley matrix --section uni,bi\n")
    directives = " ".join(line for line in text.splitlines() if line.startswith(SCHEDULERS[words[0]].prefix))
    assert all(word in shlex.split(directives) for word in asked)


def test_what_a_job_lacks_is_said(with_cuda: None, stand_in: Path) -> None:
    def notes(scheduler: str, *words: str, asked: tuple[str, ...] = ()) -> list[str]:
        _, _, said = script.write(COMMAND.parse(("--scheduler", scheduler, *asked, "--", *words)))
        return said

    gpus, core = notes("slurm", *BETWEEN_GPUS)
    assert "add --gpus-per-node with their number" in gpus
    assert "--directive=--exclusive" in core
    assert notes("slurm", *BETWEEN_GPUS, asked=("--directive=--qos=debug",)) == [gpus, core]
    whole = ("--directive=--gres=gpu:2", "--directive=--exclusive")
    assert notes("slurm", *BETWEEN_GPUS, asked=whole) == []
    assert [note for note in notes("age", "pingpong") if "the job requests only time" in note]
    assert len(notes("age", *BETWEEN_GPUS)) == 1
    assert notes("lsf", *BETWEEN_GPUS) == notes("slurm", "matrix") == []
    with_gpus = notes("slurm", "matrix", asked=("--gpus-per-node", "2"))
    for found in (with_gpus, notes("lsf", "matrix"), notes("slurm", "matrix", "--gpus", "0,1", "--ranks", "2")):
        assert [note for note in found if "between ranks, through host memory" in note]


# ------------------------------------------------------- the essential lines of recipes that people use today

# From a peer-to-peer benchmark of ABCI's nodes.
ABCI = ("qrsh -g GROUP -l rt_AF=1", "module load cuda/11.2/11.2.2")


def test_abcis_group_resource_and_module_are_there() -> None:
    _, *words = shlex.split(ABCI[0])
    group, resource = words[:2], words[2:]
    lines = AGE.splitlines()
    assert f"#$ {shlex.join(resource)}" in lines
    assert shlex.join(["qsub", *group]) in AGE
    assert f"{ABCI[1]} || exit" in lines


# ------------------------------------------------------------------------------------------ what a shell makes of it

PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), min_size=1).filter(
    lambda text: text.isprintable() and "\0" not in text
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
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
        ("--account", "a b"),
        ("--account", "a\n#SBATCH --uid=0"),
        ("--queue", "/ x"),
        ("--queue", "$(id)"),
        ("--job-name", "a/b"),
        ("--job-name", "1a"),
        ("--job-name", "a\r"),
        ("--node-resource", "a;b"),
        ("--directive", "--exclusive\nrm -rf /"),
        ("--directive", ""),
        ("--directive", " "),
        ("--module", "cuda\nid"),
        ("--module", "-f"),
        ("--module", ""),
        ("--output", "a\nid"),
        ("--time", "15"),
        ("--time", "00:00:00"),
        ("--time", "00:60:00"),
        ("--time", "١:00:00"),
    ],
)
def test_what_no_script_can_hold_is_refused(refused: Write, words: tuple[str, str]) -> None:
    assert refused("--scheduler", "slurm", *words, "--", "pingpong").startswith(f"volley: {words[0]}: ")


def test_a_line_break_in_the_measurement_is_refused(refused: Write) -> None:
    assert r"the control character in 'a id'" in refused("--scheduler", "slurm", "--", "pingpong", "-o", "a\nid")


# --------------------------------------------------------------------------------------- what would only fail later


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--scheduler", "cobalt", "--", "pingpong"), "choose slurm, lsf, pbs or age"),
        (("--", "pingpong"), "name the batch system: --scheduler slurm, lsf, pbs or age"),
        (
            ("--scheduler", "slurm", "--", "pingpng"),
            "use pingpong, stream, message-rate, matrix, jacobi, collective, overlap or transports",
        ),
        (("--scheduler", "slurm", "--", "pingpong", "--sizez", "8"), "see volley pingpong --help"),
        (("--scheduler", "slurm", "--", "pingpong", "--sizes", "8x"), "is not a message size"),
        (("--scheduler", "slurm", "--", "pingpong", "-t", "hots"), "did you mean host?"),
        (("--scheduler", "slurm", "--", "pingpong", "-n", "3"), "pingpong needs 2 ranks, not 3"),
        (("--scheduler", "slurm", "-n", "4", "--", "stream"), "stream needs 2 ranks, not 4"),
        (("--scheduler", "slurm", "-n", "4", "--", "transports", "-n", "2"), "leave one of them out"),
        (("--scheduler", "slurm", "--nodes", "3", "--", "pingpong"), "write --nodes 2"),
        (
            ("--scheduler", "slurm", "--", "show", "x"),
            "use pingpong, stream, message-rate, matrix, jacobi, collective, overlap or transports",
        ),
        (("--scheduler", "slurm", "--", "--budget", "9", "pingpong"), "unexpected argument 'pingpong'"),
        (("--scheduler", "slurm", "--", "pingpong", "--hosts", "a,b"), "--directive=--nodelist=a,b"),
        (("--scheduler", "slurm", "--", "pingpong", "--dry-run"), "leave it out of a job"),
        (("--scheduler", "slurm", "--", "pingpong", "--launcher", "srun"), "volley batch --launcher srun -- …"),
        (("--scheduler", "slurm", "--launcher", "aprun", "--", "pingpong"), "there is no 'aprun'; choose auto, "),
        (("--scheduler", "pbs", "--launcher", "srun", "--", "pingpong"), "srun is of no use in a job of pbs"),
        (("--scheduler", "slurm", "--launcher", "mpich", "--", "pingpong"), "use --launcher openmpi"),
        (("--scheduler", "slurm", "--time", "00:01:00", "--", "--budget", "61"), "raise --time"),
        (("--scheduler", "lsf", "--", "pingpong", "--launches", "2"), "write --launcher jsrun before the --"),
        (("--scheduler", "lsf", "--gpus-per-node", "2", "--", "pingpong"), "leave --gpus-per-node out"),
        (("--scheduler", "age", "--gpus-per-node", "2", "--", "pingpong"), "--directive '-l gpu=2'"),
        (("--scheduler", "age", "--gpus-per-node", "2", "--node-resource", "r", "--", "pingpong"), "r brings its GPUs"),
        (("--scheduler", "age", "--nodes", "2", "--", "pingpong"), "--node-resource rt_AF"),
        (("--scheduler", "slurm", "--gpus-per-node", "1", "--", "pingpong"), "write --gpus-per-node 2, or --nodes 2"),
        (("--scheduler", "slurm", "--nodes", "2", "--", *BETWEEN_GPUS), "between the GPUs of one node"),
        (("--scheduler", "slurm", "-n", "2", "--", *BETWEEN_GPUS), "one process has all GPUs"),
        (("--scheduler", "slurm", "--launcher", "srun", "--", *BETWEEN_GPUS), "no ranks to start"),
        (("--scheduler", "slurm", "--", *BETWEEN_GPUS, "--ranks", "2"), "leave out one or the other"),
        (("--scheduler", "slurm", "--gpus-per-node", "2", "--", *BETWEEN_GPUS, "--gpus", "0,3"), "--gpus-per-node 4"),
        (("--scheduler", "lsf", "--gpus-per-node", "2", "--", *BETWEEN_GPUS), "write --launcher openmpi"),
        (("--scheduler", "slurm", "--node-resource", "rt_AF", "--", "pingpong"), "Grid Engine's"),
    ],
)
def test_mistakes_do_not_wait_in_the_queue(
    with_cuda: None, refused: Write, words: tuple[str, ...], sentence: str
) -> None:
    assert sentence in refused(*words)


def test_an_engine_without_its_other_program_gets_none_either(
    with_cuda: None, stand_in: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in.with_name("volley-engine-local").unlink()
    assert cli.main(["batch", "--scheduler", "slurm", "--", *BETWEEN_GPUS]) == 3
    assert f"the program {stand_in}-local, which measures between GPUs, does not exist" in capsys.readouterr().err


def test_an_engine_without_cuda_gets_no_job_for_gpus(stand_in: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["batch", "--scheduler", "slurm", "--", *BETWEEN_GPUS]) == 3
    assert "built without CUDA and sees no GPU" in capsys.readouterr().err


def test_a_gpu_may_be_shared_when_asked_for(write: Write) -> None:
    text = write("--scheduler", "slurm", "--gpus-per-node", "1", "--", "pingpong", "--share-gpu")
    assert "#SBATCH --gpus-per-node=1\n" in text


def test_two_nodes_of_grid_engine_may_be_a_parallel_environment(write: Write) -> None:
    text = write("--scheduler", "age", "--nodes", "2", "--directive", "-pe mpi 2", "--", "pingpong", "-t", "host")
    assert "#$ -pe mpi 2\n" in text


def test_without_an_engine_that_starts_there_is_no_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VOLLEY_ENGINE", str(install(tmp_path)))
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
    assert cli.main([*words[:4], str(tmp_path / "none" / "job.sh"), *words[5:]]) == 2
    assert "cannot write" in capsys.readouterr().err


NO_GPUS = "volley: the job requests no GPUs, and on many sites it will have none: add --gpus-per-node 2"
NOT_TRIED = "volley: inside a launcher staged/pinned is measured only where it is named: add --transport staged/pinned"


@pytest.mark.parametrize(
    ("asked", "request_", "note"),
    [
        (("slurm",), ("-t", "staged"), NO_GPUS),
        (("slurm",), ("-t", "host"), None),
        (("slurm",), (), None),  # whatever can be measured: GPUs are welcome, not asked for
        (("pbs", "--gpus-per-node", "2"), ("-t", "staged"), None),
        (("age", "--node-resource", "rt_AF"), ("-t", "staged"), None),
        (("lsf",), (), NOT_TRIED),
        (("lsf", "--launcher", "jsrun"), (), None),
        (("lsf",), ("-t", "staged/pinned"), None),
    ],
)
def test_what_will_not_be_measured_is_said(
    stand_in: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    asked: tuple[str, ...],
    request_: tuple[str, ...],
    note: str | None,
) -> None:
    about = msgspec.convert(ABOUT, About)  # the stand-in has no transport that may crash
    risky = [msgspec.structs.replace(each, device_pointers=each.name == "staged/pinned") for each in about.transports]
    known = msgspec.structs.replace(about, transports=tuple(risky))
    monkeypatch.setattr(script, "ask_about", lambda _: nullcontext(lambda: known))
    assert cli.main(["batch", "--scheduler", *asked, "--", "pingpong", *request_]) == 0
    assert capsys.readouterr().err == (f"{note}\n" if note else "")


def test_transports_that_will_not_be_measured_are_one_sentence(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    about = msgspec.convert(ABOUT, About)
    risky = [msgspec.structs.replace(each, device_pointers=True) for each in about.transports]
    known = msgspec.structs.replace(about, transports=tuple(risky))
    monkeypatch.setattr(script, "ask_about", lambda _: nullcontext(lambda: known))
    assert cli.main(["batch", "--scheduler", "lsf", "--", "pingpong"]) == 0
    (said,) = capsys.readouterr().err.splitlines()
    assert "host, staged/pinned and staged/shared are measured only where they are named: add --transport " in said
    assert said.endswith(" host,staged/pinned,staged/shared")
    assert cli.main(["batch", "--scheduler", "lsf", "--", "transports"]) == 0  # which has no --transport
    assert "--transport" not in capsys.readouterr().err


def test_a_script_starts_this_volley_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "volley")])
    assert script.this_volley() == (sys.executable, "-m", "volley")
    (tmp_path / "volley").touch(mode=0o755)
    assert script.this_volley() == (str(tmp_path / "volley"),)


def test_a_job_is_for_a_command_that_measures() -> None:
    assert value_of(benchmarks.read(["stream", "--window", "8"])[1], "--window") == 8
    assert benchmarks.read(["transports"])[0].name == "probe"
    assert benchmarks.read([])[1].sampling.budget == 60.0
    assert benchmarks.read(["--budget", "5"])[1].sampling.budget == 5.0
    with pytest.raises(UserError, match="measures nothing"):
        benchmarks.read(["batch"])
