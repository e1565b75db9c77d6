"""``volley record``, ``explain`` and ``replay`` of a program on two hosts, which share a file system or do not."""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pretend_hosts import NAMES, Lab, Wire

from recorded_program import SCRIPTS, build, unmatched
from volley.records.trace_calls import resolve
from volley.records.trace_file import Trace, read_trace

VOLLEY = (sys.executable, "-m", "volley")
MPIRUN = (f"{SCRIPTS}/mpirun", "--allow-run-as-root", "--host", ",".join(NAMES), "--map-by", "node", "-n", "2")


@pytest.fixture
def hosts(join_hosts: Callable[[Wire], Lab]) -> Lab:
    return join_hosts(Wire(delay_s=0, rate_bps=0))


def recorded(hosts: Lab, trace: Path, program: Path) -> str:
    """Record the program on both hosts, and return what volley said."""
    done = hosts.run([*VOLLEY, "record", "-o", str(trace), "--", *MPIRUN, str(program)], timeout_s=120)
    assert done.returncode == 0, done.stderr
    return done.stderr


def is_whole(trace: Trace) -> bool:
    return trace.hosts == [*NAMES] and not trace.missing and unmatched(resolve(trace)) == 0


def test_a_program_on_two_hosts_that_share_a_folder_is_recorded(hosts: Lab, tmp_path: Path) -> None:
    trace = tmp_path / "two.trace"
    said = recorded(hosts, trace, build(tmp_path))
    assert "no trace of" not in said
    assert is_whole(read_trace(str(trace)))


def test_hosts_that_share_no_folder_say_where_their_files_are(hosts: Lab, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    program, trace = build(tmp_path), own / "two.trace"
    hidden = hosts.run(["mount", "-t", "tmpfs", "none", str(own)], timeout_s=30, host=NAMES[1])
    assert hidden.returncode == 0, hidden.stderr
    said = recorded(hosts, trace, program)
    found = re.search(r"no trace of rank 1; .* wrote to (\S+) there: copy these files into that folder", said)
    assert found, said
    assert read_trace(str(trace)).missing == [1]
    folder, elsewhere = Path(f"{trace}.ranks"), Path(found[1])
    try:  # what `scp volley-b:… …` does
        for file in elsewhere.iterdir():
            shutil.copy(file, folder)
    finally:
        shutil.rmtree(elsewhere)
    assert is_whole(read_trace(str(folder)))
    short = ("--time", "0.05", "--launches", "1", "--hosts", ",".join(NAMES))
    for words, expected in (
        (("explain", str(folder)), "hosts: volley-a and volley-b"),
        (("replay", str(folder), *short), "checked byte for byte"),
    ):
        done = hosts.run([*VOLLEY, *words], timeout_s=120)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout
