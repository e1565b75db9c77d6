"""``volley record`` on programs of which the calls are known, and what it says of programs that do not end."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recorded_program import mpirun, start, unmatched, volley
from the_command import LIMIT_S, until
from volley import cli
from volley.errors import UserError
from volley.machine.mpi_words import ALLOW_ROOT
from volley.records.trace_calls import resolve
from volley.records.trace_file import TraceInfo, read_folder, read_trace
from volley.trace.explain import explanation

KNOWN = {"Isend": 100, "Irecv": 102, "Waitall": 110, "Allreduce": 102, "Send": 54, "Recv": 50, "Barrier": 2}
"""Calls of both ranks of ``program known``."""
KNOWN |= {"Sendrecv": 2, "Alltoallv": 2, "Comm_dup": 2, "Comm_split": 2, "Comm_free": 4, "Startall": 10, "Finalize": 2}


def test_every_call_is_counted_once(known: Path) -> None:
    found = read_trace(str(known)).totals
    assert {name: found[name].calls for name in KNOWN} == KNOWN
    assert "Put" not in found
    assert {rank.mpi.partition(" v")[0] for rank in read_trace(str(known)).ranks} == {"Open MPI"}


def test_every_message_and_collective_is_matched(known: Path) -> None:
    calls = resolve(read_trace(str(known)))
    assert unmatched(calls) == 0
    found = [each for rank in calls.ranks.values() for each in rank.operations]
    assert all(each.done >= 0 for each in found)
    received = [each for each in found if each.kind == "receive" and each.rank == 1 and each.tag == 7]
    assert [each.peer for each in received] == [0] * 50  # posted for any source and any tag
    assert {each.nbytes for each in received} == {64}
    assert sorted(map(len, calls.members)) == [1, 1, 2, 2]
    world = [group for group in calls.collectives if len(group) == 2]
    assert len(world) == 50 + 1 + 1  # Allreduce, Alltoallv, Allreduce in place; the barriers are of one rank


def test_a_command_names_a_trace_as_a_shell_reads_it(known: Path, tmp_path: Path) -> None:
    odd = tmp_path / "it's a trace; rm"
    odd.write_bytes(known.read_bytes())
    assert shlex.join(["volley", "explain", str(odd)]) in volley("explain", str(odd))[1]


def test_the_data_of_vectors_and_partners(known: Path) -> None:
    trace = read_trace(str(known))
    rank = trace.ranks[1]
    (vector,) = (event for event in rank.rows if rank.names[event.call] == "Alltoallv")
    assert rank.list_of(vector) == [8, 16, 16, 16]  # sent to ranks 0 and 1, received from them
    assert vector.bytes == 24
    sent = {to: int(each["sent"]) for to, each in enumerate(trace.ranks[0].partners)}
    assert sent == {0: 1, 1: 50 + 50 + 1 + 5}  # and a persistent request that is started five times
    started = trace.totals["Startall"]
    assert (started.bytes, int(started.sizes.sum())) == (2 * 5 * 2 * 16, 2 * 5 * 2)  # of two ranks: sent and received


def test_a_type_of_more_than_2_gib_has_its_size(program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    assert volley("record", "-o", str(trace), "--", *mpirun(1, program, "large"))[0] == 0
    assert read_trace(str(trace)).totals["Send"].bytes == 3 << 30


def test_communicators_of_comm_idup_are_told_apart_whichever_is_used_first(program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    assert volley("record", "-o", str(trace), "--", *mpirun(2, program, "idup"))[0] == 0
    calls = resolve(read_trace(str(trace)))
    sent, received = (rank.operations for _, rank in sorted(calls.ranks.items()))
    assert [each.match for each in sent] == received[::-1]


def test_calls_beyond_the_kept_ones_are_counted(program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    code, _, err = volley("record", "-o", str(trace), "--events", "20", "--", *mpirun(2, program, "known"))
    assert code == 0
    assert "are only counted" in err
    found = read_trace(str(trace))
    assert {len(rank.events) for rank in found.ranks} == {20}
    assert {name: found.totals[name].calls for name in KNOWN} == KNOWN
    (note,) = (each for each in explanation(found, resolve(found)).notes if "--events" in each.text)
    assert re.match(
        r"\d.* % of the time in MPI is not split: the last \d+ calls are only counted; --events ", note.text
    )
    again = shlex.split(note.command)
    assert again[:6] == ["volley", "record", "--events", "1000", "-o", str(trace.with_suffix(".all.trace"))]
    assert again[6:] == ["--", *mpirun(2, program, "known")]


def test_a_recording_that_was_cut_off_is_named(tmp_path: Path) -> None:
    """volley was killed: the folder of the ranks is left."""
    trace = tmp_path / "my trace"
    with pytest.raises(UserError, match="No such file"):
        read_trace(str(trace))
    Path(f"{trace}.ranks").mkdir()
    with pytest.raises(UserError, match=f"was cut off: name '{re.escape(str(trace))}.ranks', what its ranks wrote$"):
        read_trace(str(trace))


def ranks_in(folder: Path) -> list[int]:
    """Return the number of events of each rank in the folder of a recording."""
    return [len(rank.events) for rank in read_folder(folder, TraceInfo()).ranks]


def expected_places(victim: int) -> list[str]:
    who = [(victim + step) % 4 for step in range(4)]
    return [
        f"rank {who[0]} was in MPI_Recv from rank {who[1]}, tag 42, 1 B",
        f"rank {who[1]} was in MPI_Wait of MPI_Irecv from rank {who[2]}, tag 5, 1 B",
        f"rank {who[2]} was in MPI_Barrier",
        f"rank {who[3]} was outside MPI for ",
    ]


def test_the_roll_call_of_a_deadlock(program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    folder = Path(f"{trace}.ranks")
    with start("record", "-o", str(trace), "--", *mpirun(4, program, "deadlock", "1")) as process:
        try:
            until(lambda: sorted(ranks_in(folder)) == [1, 2, 2, 3], "the ranks do not stop")
        finally:
            process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + signal.SIGTERM
    for place in expected_places(1):
        assert place in err
    assert re.search(r"was outside MPI for [\w ]+, after MPI_Barrier\n", err)
    code, out, _ = volley("explain", str(trace))
    assert code == 0
    assert "BROKEN" not in out  # an error, which stands first
    assert all(place in out for place in expected_places(1))


def test_the_roll_call_after_sigkill(program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    folder = Path(f"{trace}.ranks")
    with start("record", "-o", str(trace), "--", *mpirun(4, program, "deadlock", "0")) as process:
        try:
            until(lambda: sorted(ranks_in(folder)) == [1, 2, 2, 3], "the ranks do not stop")
        except BaseException:
            process.terminate()
            raise
        for rank in read_trace(str(folder)).ranks:
            with contextlib.suppress(ProcessLookupError):  # mpirun ends the others when it sees that one is gone
                os.kill(int(rank.header["pid"]), signal.SIGKILL)
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + signal.SIGKILL
    assert all(place in err for place in expected_places(0))


def test_a_rank_that_comes_late_is_named(program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    assert volley("record", "-o", str(trace), "--", *mpirun(2, program, "late", "1"))[0] == 0
    _code, out, _ = volley("explain", str(trace), "--format", "json")
    document = json.loads(out)
    texts = [each["text"] for each in document["findings"]]
    # On a busy machine ranks lose their core, and that is said instead.
    assert any("rank 1 comes late" in text or "without a core" in text for text in texts)
    assert not any("rank 0 comes late" in text for text in texts)


FAKE_CUDA = """
int cuPointerGetAttribute(void* data, int attribute, unsigned long long address) {
  *(unsigned*)data = 2;  // CU_MEMORYTYPE_DEVICE
  return attribute == 2 && address >> 40 == 0x70 ? 0 : 1;
}
int cuCtxGetDevice(int* gpu) {
  *gpu = 3;
  return 0;
}
int cuDeviceGetUuid(unsigned char* uuid, int gpu) {
  for (int i = 0; i < 16; ++i) uuid[i] = gpu;
  return 0;
}
"""


def test_buffers_in_gpu_memory_are_told_from_others(program: Path, tmp_path: Path) -> None:
    source = tmp_path / "cuda.c"
    source.write_text(FAKE_CUDA)
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", tmp_path / "libcuda.so.1"], check=True)
    trace = tmp_path / "t"
    code, _, err = volley(
        "record", "-o", str(trace), "--", *mpirun(2, program, "device"), env={"LD_LIBRARY_PATH": str(tmp_path)}
    )
    assert code == 0, err
    ranks = read_trace(str(trace)).ranks
    assert [rank.gpu for rank in ranks] == ["03" * 16] * 2
    by_rank = [{n: int(c["on_device"]) for n, c in rank.counted().items()} for rank in ranks]
    assert by_rank[0]["Send"] == 10
    assert by_rank[1]["Recv"] == 0
    assert [each["Allreduce"] for each in by_rank] == [1, 1]
    assert "buffers in GPU memory: 10 of MPI_Send and 2 of MPI_Allreduce" in volley("explain", str(trace))[1]


@pytest.mark.slow
def test_what_cannot_be_recorded_is_said(tmp_path: Path) -> None:
    trace = str(tmp_path / "t")
    code, _, err = volley("record", "-o", trace, "--", "true")
    assert code == 3
    assert "no process of the command called MPI_Init" in err
    assert "If ranks ran on a host that does not reach" in err
    assert volley("record", "-o", trace, "--", "no-such-program")[0] == 2
    code, _, err = volley("record", "-o", trace, "--", "false")
    assert code == 1
    assert err.splitlines() == [
        "volley: the command ended with status 1",
        "volley: nothing was recorded: no rank of this host had called MPI_Init",
    ]
    assert list(tmp_path.iterdir()) == []
    Path(trace).write_bytes(b"PK\x03\x04 no trace")
    code, _, err = volley("explain", trace)
    assert code == 2
    assert "is no trace of volley record, or it is damaged" in err
    assert volley("record", "-o", trace, "--", "true")[0] == 2  # the file exists


@pytest.mark.parametrize("status", [0, 1])
def test_ranks_without_room_for_their_files_are_not_said_to_be_without_mpi(status: int, tmp_path: Path) -> None:
    trace = str(tmp_path / "t")
    leaves = f">$VOLLEY_TRACE_FOLDER/host.a-11.28.lost; >$VOLLEY_TRACE_FOLDER/host.a-12.28.lost; exit {status}"
    code, _, err = volley("record", "-o", trace, "--", "sh", "-c", leaves)
    why = f"nothing was recorded: 2 ranks could not write a file in {trace}.ranks: No space left on device: "
    assert (code, f"volley: {why}" in err, "MPI_Init" in err) == (status or 3, True, False)
    assert list(tmp_path.iterdir()) == []


# With room for one of two files both ranks may fail: each sees what the other has taken and gives back.
@pytest.mark.parametrize(("room", "said"), [("1m", "nothing was recorded: 2 ranks could not"), ("40m", " could not")])
def test_a_rank_says_that_the_disk_is_full(room: str, said: str, program: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("only root can make a full disk, with unshare")
    mount = f'mount -t tmpfs -o size={room} none {tmp_path}; exec "$@"'
    words = ["-m", "volley", "record", "-o", str(tmp_path / "t"), "--", *mpirun(2, program, "known")]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = ["unshare", "-m", "sh", "-ec", mount, "sh", sys.executable, *words]
    err = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False).stderr
    assert f"{said} write a file in {tmp_path}/t.ranks: No space left on device" in err
    assert "static" not in err


def test_a_trace_damaged_anywhere_is_refused_in_one_sentence(known: Path, tmp_path: Path) -> None:
    content, damaged = known.read_bytes(), tmp_path / "damaged.trace"
    said: set[str] = set()
    for at in range(0, len(content), 97):
        damaged.write_bytes(content[:at] + b"X" * 16 + content[at + 16 :])
        try:
            read_trace(str(damaged))
        except UserError as error:
            said.add(str(error))
    assert said == {f"{damaged} is no trace of volley record, or it is damaged"}


def test_the_program_gets_its_input_and_its_status_counts(program: Path, tmp_path: Path) -> None:
    shell = shutil.which("sh") or "sh"
    text = tmp_path / "input"
    text.write_text("words\n")
    with text.open() as stdin:
        code, out, err = volley("record", "-o", str(tmp_path / "t"), "--", shell, "-c", "cat; exit 7", stdin=stdin)
    assert out == "words\n"
    assert "the command ended with status 7" in err
    assert code == 7


@pytest.mark.skipif(os.geteuid() != 0, reason="Open MPI refuses root only")
def test_root_is_told_what_open_mpi_wants_and_it_is_enough(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["record", "-o", str(tmp_path / "t"), "--", *mpirun(2, program, "known")]
    for name in ALLOW_ROOT:
        monkeypatch.delenv(name, raising=False)
    assert cli.main(words) == 1
    said = capfd.readouterr().err.splitlines()[-1]
    assert said.startswith("volley: nothing was recorded: ")
    for setting in said.partition("as root, export ")[2].split():
        monkeypatch.setenv(*setting.split("="))
    assert cli.main(words) == 0
