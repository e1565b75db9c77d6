"""What the stand-in for the engine (fake_engine.py) does with a plan: a function for each value of ``VOLLEY_FAKE``.

It starts hundreds of times: it imports nothing of volley, and fills in records that ``fake_engine.install`` has left.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Plan = dict[str, Any]
HERE = Path(sys.argv[0]).parent


def behave(name: str) -> None:
    """Read a plan, and end as the function of this name does, with the status that it returns, or well."""
    sys.exit(globals()[name](json.loads(sys.stdin.buffer.readline())))


def emit(kind: str, **changes: object) -> None:
    """Write one record as the engine does: a line, flushed."""
    usual = json.loads((HERE / "records.json").read_text(encoding="utf-8"))[kind]
    print(json.dumps({**usual, **changes}, separators=(",", ":")), flush=True)


def point(size: int, times_s: Sequence[float] = (1e-6, 1.1e-6, 1.2e-6), name: str = "host", **changes: object) -> None:
    counts = {"messages_timed": 20 * len(times_s), "messages_verified": 2 * len(times_s)}
    emit("pingpong", **{"transport": name, "size_bytes": size, "half_round_trip_s": list(times_s), **counts, **changes})


def begin(plan: Plan, kind: str = "run") -> None:
    emit(kind, plan=plan)
    for name in plan["transports"]:
        emit("transport", transport=name)


def sizes(plan: Plan) -> list[int]:
    return plan["options"].get("sizes_bytes", [])


def end(plan: Plan, status: str = "complete", reason: str | None = None) -> None:
    emit("end", status=status, reason=reason, points_ok=len(sizes(plan)))


def good(plan: Plan) -> None:
    begin(plan)
    for size in sizes(plan) if plan["benchmark"] == "pingpong" else ():
        point(size)
    for size in plan["options"].get("latency_sizes_bytes", ()):
        emit("rank_matrix", size_bytes=size, transport=plan["transports"][0])
    end(plan)


def quick(plan: Plan) -> None:
    """Half the time, as with a better setting."""
    begin(plan)
    for size in sizes(plan):
        point(size, [5e-7, 5.5e-7, 6e-7])
    end(plan)


def braces(plan: Plan) -> None:
    """The launcher says something in braces that is no record."""
    print("{1 more process has sent help message help-mpi-btl.txt}", flush=True)
    print('{"a": [}\n[1]\n{}', flush=True)
    good(plan)


def gpus(plan: Plan) -> None:
    """Each rank has a GPU of the composed machine with two."""
    begin(plan, "run with GPUs")
    for size in sizes(plan):
        point(size, name="staged/pinned")
    end(plan)


def gpus_lost(plan: Plan) -> None:
    """The same, and the job ends by force."""
    begin(plan, "run with GPUs")
    os.kill(os.getpid(), signal.SIGKILL)


def chatty(plan: Plan) -> None:
    """MPI and the launcher talk on both streams, with control characters."""
    print("\0=   BAD\x1b[31m NEWS\x1b[0m", flush=True)
    sys.stderr.write("a warning\0 of \x1b]0;title\x07MPI\n")
    good(plan)


def met_a_limit(plan: Plan) -> None:
    """Open MPI 5 goes on over TCP."""
    sys.stderr.write("It appears as if there is not enough space for /dev/shm/sm_segment.a.0.e9010001.0 (the shared-\n")
    good(plan)


def talks_of_windows(plan: Plan) -> None:
    """Open MPI 5.0 tells of each window and rank that UCX has no device for it, and of an ssh that was quick."""
    sys.stderr.write("[vm:51] plm:ssh: Warning: setpgid(54,54) failed in parent with errno=Permission denied(13)\n")
    for pid in (12, 13, 12, 13):
        where = "/ompi/mca/osc/ucx/osc_ucx_component.c:375"
        sys.stderr.write(f"[vm:{pid}] {where}  Error: OSC UCX component priority set inside component query failed \n")
    good(plan)


def talks_as_ucx(plan: Plan) -> None:
    """UCX tells how it sends where it is asked to."""
    if os.environ.get("UCX_PROTO_INFO") == "y":
        text = Path(__file__).parents[1] / "ucx" / "composed-1.22-gpu-memory.txt"
        sys.stderr.write(text.read_text(encoding="utf-8"))
    good(plan)


def second_is_gone(plan: Plan) -> None:
    """Good once; afterwards its launcher is not there any more."""
    (HERE / "mpirun").unlink()
    good(plan)


def second_crashes(plan: Plan) -> None:
    """Good once; afterwards a rank ends by force after its first point."""
    (cut if _launched_before() else good)(plan)


def second_skips(plan: Plan) -> None:
    """Good once; afterwards it skips every point."""
    (skipping if _launched_before() else good)(plan)


def _launched_before() -> bool:
    before = HERE / f"launched before, {os.environ['VOLLEY_FAKE']}"
    found = before.exists()
    before.touch()
    return found


def preflight_hangs(plan: Plan) -> None:
    """Good, but for the small matrix that is tried first."""
    (endless if plan["benchmark"] == "rank_matrix" else good)(plan)


def crashes_alone(plan: Plan) -> None:
    """Good as one of two ranks; a process that sends to itself ends by force."""
    if plan["world_size"] == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    good(plan)


def put_crashes(plan: Plan) -> None:
    """Good without one-sided MPI on device pointers."""
    if "aware/put" in plan["transports"]:
        begin(plan)
        os.kill(os.getpid(), signal.SIGSEGV)
    good(plan)


def one_ends_the_job(plan: Plan) -> None:
    """The second transport crashes and says so, until it is left out."""
    lost = plan["transports"][1]
    if lost not in plan["excluded"]:
        begin(plan)
        said = f"volley-engine: rank 1 of 2 was ended by SIGSEGV in transport {lost} (1 pair), pair 0-1, 8 B, sends"
        print(said, file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    good({**plan, "transports": plan["transports"][:1]})


def two_crash(plan: Plan) -> None:
    """Good with one transport, and not with two."""
    if len(plan["transports"]) > 1:
        begin(plan)
        os.kill(os.getpid(), signal.SIGSEGV)
    good(plan)


def lossy(plan: Plan) -> None:
    """One line of the records is no record."""
    begin(plan)
    print('{"record":"pingpong","version":2,"transport":7}', flush=True)
    end(plan)


def headless(plan: Plan) -> None:
    """Never says where its ranks are."""
    for size in sizes(plan):
        point(size)
    end(plan)


def cut(plan: Plan) -> None:
    """Dies in the middle of a line."""
    begin(plan)
    point(sizes(plan)[0])
    sys.stdout.write('{"record":"pingpong","vers')
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def watchdog(plan: Plan) -> int:
    begin(plan)
    sys.stderr.write("[1,1]<stderr>: volley-engine: watchdog: rank 1 of 2 made no progress for 60 s\n")
    sys.stderr.write("prterun detected that one or more processes exited with non-zero status\n")
    return 4


def refuses(_plan: Plan) -> int:
    sys.stderr.write("volley-engine: this job has 1 rank, the plan needs 2\n")
    return 2


def unable(_plan: Plan) -> int:
    sys.stderr.write("volley-engine: rank 0: no memory left to allocate\n")
    return 3


def lingers(plan: Plan) -> None:
    """All is measured, and the job does not end."""
    good(plan)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def failing(plan: Plan) -> int:
    begin(plan)
    point(8, status="failed", reason="one bit differs", ended_by="failure")
    end(plan, "failed")
    sys.stderr.write("prterun detected that one or more processes exited with non-zero status\n")
    return 1


def threw(plan: Plan) -> int:
    begin(plan)
    point(8)
    end(plan, "failed", "MPI_Send: out of resources")
    return 1


def lacking(plan: Plan) -> None:
    """The transports of the family staged cannot be used; others can."""
    emit("run", plan=plan)
    for name in plan["transports"]:
        usable = not name.startswith("staged/")
        emit("transport", transport=name, available=usable, reason=None if usable else "no NVIDIA driver")
        if usable:
            point(8, name=name)
    end(plan)


def skipping(plan: Plan) -> None:
    begin(plan)
    for size in sizes(plan):
        point(size, (), status="skipped", reason="two buffers need more memory than there is", ended_by=None)
    end(plan)


def endless(plan: Plan) -> None:
    begin(plan)
    point(8)
    while True:
        time.sleep(0.05)


def pauses(plan: Plan) -> None:
    """Its first point takes long."""
    begin(plan)
    time.sleep(1.5)
    for size in sizes(plan):
        point(size)
    end(plan)


def silent(_plan: Plan) -> None:
    """Never comes back from MPI_Init."""
    time.sleep(600)


def stubborn(plan: Plan) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    endless(plan)
