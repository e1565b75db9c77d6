"""A launch whose launcher or ranks misbehave, with a stand-in for the engine."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from the_session import SIZES, fake, measure
from volley.command.options import JobOptions
from volley.errors import MachineError
from volley.launch import engine, start
from volley.launch.engine import EngineProcess
from volley.launch.start import Patience, Start
from volley.machine import signals
from volley.machine.signals import Stop
from volley.records.plan import Plan


def test_a_launcher_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    with Stop() as stop, pytest.raises(MachineError, match="no-such-mpirun"):
        EngineProcess(Start("openmpi", (str(tmp_path / "no-such-mpirun"),), {}, {}), stop)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_job_that_was_given_no_plan_is_not_waited_for(bin_folder: Path) -> None:
    words = (str(bin_folder / "volley-engine"), "--plan", "-")
    with EngineProcess(Start("none", words, {}, os.environ), Stop()) as process:
        pass
    assert process.ending.status == 1  # the stand-in's: an empty plan is none


@pytest.mark.slow
def test_a_job_that_ignores_a_stop_is_killed_after_a_while(
    bin_folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "GRACE_S", 0.2)

    def interrupt_when_measured() -> None:
        while not any(b'"pingpong","version"' in file.read_bytes() for file in kept.glob("*.jsonl")):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt_when_measured, daemon=True).start()
    assert fake(monkeypatch, "stubborn") == 130
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_launcher_that_does_not_end_after_the_last_record_is_killed(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signals, "_CLEANUP_S", 0.1)
    monkeypatch.setattr(start, "patience", lambda **_: Patience(end_s=0.1))
    assert fake(monkeypatch, "lingers", "--launches", "2", "--watchdog", "0.1") == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + len(SIZES)
    said = "volley: all points were measured, but the launcher had not ended 0.2 s after the last record; killed it"
    assert said in err.splitlines()


@pytest.mark.parametrize("words", [(), ("--launcher-arg=--hostfile", "--launcher-arg=hosts")])
def test_a_launch_on_this_host_has_a_folder_of_its_own_for_temporary_files(
    words: tuple[str, ...], bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two launchers with the same process number, in two containers or one after the other, use no common folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    used = []
    for _ in range(1 if words else 2):
        assert measure(*words) == 0
        lines = (bin_folder / "environment").read_text(encoding="utf-8").splitlines()
        used += [Path(line.removeprefix("TMPDIR=")) for line in lines if line.startswith("TMPDIR=")]
    if words:  # the ranks may be on other hosts, where no such folder exists
        assert used == [tmp_path]
        return
    assert [folder.parent for folder in used] == [tmp_path, tmp_path]
    assert len(set(used)) == 2
    assert not any(folder.exists() for folder in used)


HANGING = """#!/bin/sh
trap 'echo "{}" >&2; {}' TERM
sleep 30 &
echo $$ $! >"$(dirname "$0")/processes"
wait
while :; do :; done
"""


LONGER = "a larger --watchdog waits longer"


@pytest.mark.parametrize(
    ("last_words", "then", "cleanup_s", "advice"),
    [
        ("[mpiexec@a] ui_cmd_cb (a.c:1): unable to send signal downstream", "", 0.5, LONGER),
        ("srun: Cancelled pending job step with signal 15", "wait; exit", 60, engine._BUSY.removeprefix("; ")),
    ],
)
def test_a_launcher_that_starts_no_rank_is_killed(
    last_words: str,
    then: str,
    cleanup_s: float,
    advice: str,
    bin_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(signals, "_CLEANUP_S", cleanup_s)
    monkeypatch.setattr(start, "patience", lambda **_: Patience(start_s=0.5))
    (bin_folder / "mpirun").write_text(HANGING.format(last_words, then), encoding="utf-8")
    assert measure("--launches", "2", "--watchdog", "0.5") == 3
    said = f"no measurement had begun 1 s after the start of the launcher; killed it; {advice}"
    assert f"volley: the run did not begin: {said}" in capsys.readouterr().err.splitlines()
    for process in (bin_folder / "processes").read_text(encoding="utf-8").split():
        assert not Path(f"/proc/{process}").exists()


EXPLAINS = """#!/bin/sh
echo "ssh: connect to host node2 port 22: Connection timed out" >&2
exec sleep 600
"""


WORDS = "ssh: connect to host node2 port 22: Connection timed out"


def test_the_words_of_a_launcher_are_shown_while_it_is_waited_for_and_when_it_is_killed(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "patience", lambda **_: Patience(start_s=1))
    (bin_folder / "mpirun").write_text(EXPLAINS, encoding="utf-8")
    assert measure("--watchdog", "1") == 3
    lines = capsys.readouterr().err.splitlines()
    late = "no measurement had begun 2 s after the start of the launcher; killed it"
    assert lines[0].startswith("volley: waiting for the start of 2 ranks: ")
    assert lines[1:] == [
        f"volley: the launcher says: {WORDS}",
        WORDS,
        f"volley: the run did not begin: {late}: {WORDS}",
        "volley: volley doctor looks for the cause",
    ]


@pytest.mark.parametrize("talks", [False, True])
def test_of_what_libraries_were_asked_to_say_only_a_reason_is_shown(talks: bool) -> None:
    talk = "[node1:1] selected ob1 best priority 20"
    start = Start("none", ("sh", "-c", f"echo '{talk}' >&2; echo '{WORDS}' >&2; exec sleep 600"), {}, os.environ)
    plan = Plan(benchmark="probe", transports=[], options={}, watchdog_s=0.5)
    notes: list[str] = []
    with (
        Stop() as stop,
        EngineProcess(replace(start, patience=Patience(start_s=0.5)), stop, notes.append, talks=talks) as process,
    ):
        assert list(process.lines(plan)) == []
        process.terminate()
    shown = [WORDS] if talks else [talk, WORDS]
    assert [*stop.said] == shown
    assert [each.partition(" says: ")[2] for each in notes if " says: " in each] == shown
    assert process.ending.others == (talk, WORDS)


def test_few_ranks_on_other_hosts_are_not_waited_for_as_long_as_many() -> None:
    def waits_s(ranks: int) -> float:
        return start.patience(gpus=False, elsewhere=ranks).until_first_record_s(JobOptions().watchdog)

    assert waits_s(0) <= waits_s(2) < 90 < waits_s(4096)


def test_doctor_is_recommended_with_the_hosts_of_the_run(bin_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bin_folder / "mpirun").write_text("#!/bin/sh\necho no route >&2\nexit 1\n", encoding="utf-8")
    assert measure("--hosts", "node1,node2") == 3
    assert capsys.readouterr().err.splitlines()[-1].endswith("volley doctor --hosts node1,node2 looks for the cause")


def test_where_words_were_given_to_the_launcher_doctor_is_the_test_without_them(
    bin_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bin_folder / "mpirun").write_text("#!/bin/sh\necho unknown option >&2\nexit 1\n", encoding="utf-8")
    assert measure("--launcher-arg=--no such") == 3
    assert capsys.readouterr().err.splitlines()[-1] == "volley: volley doctor tries without '--launcher-arg=--no such'"


def test_the_words_of_a_launcher_are_shown_after_ctrl_c(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keep = EngineProcess._keep_text

    def stop_then(self: EngineProcess, line: bytes) -> None:
        keep(self, line)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(EngineProcess, "_keep_text", stop_then)
    (bin_folder / "mpirun").write_text(EXPLAINS, encoding="utf-8")
    assert measure() == 130
    assert capsys.readouterr().err.splitlines() == [
        WORDS, "volley: stopped by Ctrl-C before anything was measured"
    ]  # fmt: skip


OUTLIVES = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in */volley-engine) break ;; esac
  shift
done
"$@" <&0
trap '' TERM
sleep 600
"""


@pytest.mark.parametrize("behaviour", ["cut", "watchdog"])
def test_a_launcher_that_outlives_its_ranks_is_killed(
    behaviour: str, bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "_LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(signals, "_CLEANUP_S", 0.1)
    monkeypatch.setattr(start, "patience", lambda **_: Patience(end_s=0.3))
    (bin_folder / "mpirun").write_text(OUTLIVES, encoding="utf-8")
    assert fake(monkeypatch, behaviour) == 1
    assert "the launcher had not ended 0.3 s after its ranks; killed it" in capsys.readouterr().err


def test_a_launcher_that_outlives_ranks_which_never_began_is_killed(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Open MPI 5.0 sometimes where MPI_Init fails: nobody asks how the ranks ended."""
    monkeypatch.setattr(engine, "_LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(signals, "_CLEANUP_S", 0.1)
    monkeypatch.setattr(start, "patience", lambda **_: Patience(start_s=0.3, end_s=0.3))
    hangs = OUTLIVES.partition('"$@"')[0] + '"$@" </dev/null 2>/dev/null &\nexec sleep 600\n'
    (bin_folder / "mpirun").write_text(hangs, encoding="utf-8")
    assert measure("--watchdog", "20") == 3
    assert "the launcher had not ended 0.3 s after its ranks; killed it" in capsys.readouterr().err


def test_ranks_with_a_session_of_their_own_are_seen(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As those of Hydra: a job that says nothing for long, though its ranks are at work, goes on."""
    monkeypatch.setattr(engine, "_LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(start, "patience", lambda **_: Patience(end_s=0.3))
    (bin_folder / "mpirun").write_text(OUTLIVES.partition("trap")[0].replace('"$@"', 'setsid -w "$@"'), "utf-8")
    assert fake(monkeypatch, "pauses") == 0, capsys.readouterr().err


WORKS_AT_THE_END = """
import os, subprocess, sys, time
words = sys.argv[next(number for number, word in enumerate(sys.argv) if word.endswith("volley-engine")) :]
status = subprocess.call(words)
os.nice(NICE)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
until = time.process_time() + NEEDS_S
while time.process_time() < until:
    pass
os._exit(status)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("nice", "needs_s"), [(0, 0.12), (19, 0.006)], ids=["many short waits", "one long wait"])
def test_a_launcher_that_others_keep_from_running_is_waited_for(
    nice: int, needs_s: float, bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs a core that six others want, and may take 0.5 s after its ranks.

    With the lowest priority it waits for more than a second before it runs; Linux counts that when it has ended.
    """
    works = WORKS_AT_THE_END.replace("NICE", str(nice)).replace("NEEDS_S", str(needs_s))
    monkeypatch.setattr(engine, "_LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(start, "patience", lambda **_: Patience(end_s=0.5))
    (bin_folder / "mpirun").write_text(f"#!{sys.executable}\n{works}", encoding="utf-8")
    core = min(os.sched_getaffinity(0))
    spin = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", spin], start_new_session=True) for _ in range(6)]
    try:
        assert fake(monkeypatch, "good") == 0
    finally:
        for each in others:
            each.kill()
            each.wait()


def test_the_first_record_ends_the_time_limit_of_the_start_and_teaches_that_of_the_next() -> None:
    slow = ("sh", "-c", "sleep 0.2; echo '{}'; sleep 0.6; echo '{}'")
    patience = Patience(start_s=10)
    plan = Plan(benchmark="probe", transports=[], options={}, watchdog_s=0.1)
    assert patience.until_first_record_s(0.5) == 10.5
    with Stop() as stop, EngineProcess(Start("none", slow, {}, os.environ, patience=patience), stop) as process:
        assert len(list(process.lines(plan))) == 2
    assert patience.until_first_record_s(0.5) == 0.5 + patience.seen_s[0] < 10


def test_a_start_that_does_not_come_is_not_waited_for_twice() -> None:
    patience = Patience(start_s=1.0, most_s=8.0)
    plan = Plan(benchmark="probe", transports=[], options={}, watchdog_s=9.0)
    assert patience.until_first_record_s(9.0) == 8.0
    first = replace(patience, most_s=0.5)  # of a job before the one that measures
    start = Start("none", ("sleep", "600"), {}, os.environ, patience=first)
    with Stop() as stop, EngineProcess(start, stop) as process:
        assert list(process.lines(plan)) == []
    assert "no measurement had begun 0.5 s after" in process.ending.reason()
    assert patience.until_first_record_s(9.0) == 7.5
    patience.missed_s.append(1000.0)
    assert 0 < patience.until_first_record_s(9.0) < 8.0


def test_talk_on_both_streams_is_not_data_and_is_harmless(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fake(monkeypatch, "chatty") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + len(SIZES)
    assert "=   BAD NEWS" in err.splitlines()
    assert "a warning of MPI" in err
    assert not {"\0", "\x1b", "\x07"} & set(err)
