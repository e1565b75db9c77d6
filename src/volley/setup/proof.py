"""The proof of a set-up: ``volley pingpong`` between two ranks of the MPI that was set up.

What a library reports of itself proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from volley.benchmarks import BENCHMARKS
from volley.errors import EXIT_MACHINE, UserError
from volley.launch import inside_launcher
from volley.launch.start import this_volley
from volley.machine.mpi_stack import UCX_MCA
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.setup.workspace import Folders, StepError, run_logged, tail
from volley.text import escape_controls
from volley.units import format_size

LIMIT_S = 120.0
"""A proof that takes longer hangs: normally it takes a few seconds."""
SIZES = "8,1M"
"""One message that UCX sends eagerly and one that it sends by rendezvous: they take different paths."""


def prove(mpi: Path, variables: Mapping[str, str], environment: Mapping[str, str], folders: Folders) -> list[str]:
    """Send messages there and back between two ranks, compare every byte, and return sentences about the result.

    Args:
        mpi: the prefix of the MPI.
        variables: what its ranks need, if ``volley --mpi PREFIX`` does not find that out itself.
        environment: the variables of all else; those of a launcher are left out.
        folders: where the log and the records go.

    Raises:
        StepError: a transfer failed, hangs or delivered wrong data.
    """
    log, records = folders.new_log("proof"), folders.logs / "proof.jsonl"
    records.unlink(missing_ok=True)
    words = ["pingpong", "--mpi", str(mpi), "--launcher", "openmpi", "-t", "host,aware", "-s", SIZES]
    words += ["--share-gpu", "--iterations", "3", "--launches", "1", "-q", "-o", str(records)]
    for name, value in variables.items():
        words += ["--launcher-arg=-x", f"--launcher-arg={name}={value}"]
    chosen = {f"OMPI_MCA_{name}": value for name, value in UCX_MCA.items()}
    failure = None
    try:
        run_logged(
            [*this_volley(), *words],
            log,
            title="the transfer",
            environment={**inside_launcher.scrubbed(environment), **chosen},
            folder=folders.temporary,
            limit_s=LIMIT_S,
        )
    except StepError as error:
        failure = error
    try:
        run = read_runs(records, BENCHMARKS)[-1]
    except UserError:
        raise failure or StepError(f"the transfer left no records; full log: {log}", tail(log)) from None
    return _judged(run, failure, log)


def _judged(log: RunLog, failure: StepError | None, said: Path) -> list[str]:
    """Return sentences about a proof, and about its limits, from its records and the failure of its command."""
    excluded = log.run.plan.excluded if log.run else {}
    wrong = [f"{point.size_bytes} B with {point.transport}: {point.reason}" for point in log.records if point.reason]
    for reason in (*excluded.values(), *wrong):
        raise StepError(f"the transfer failed: {escape_controls(reason)}; full log: {said}", tail(said))
    refused = {each.memory: each.reason for each in log.transports if not each.available}
    expected = failure and failure.status == EXIT_MACHINE and refused.keys() == {"device"}
    if failure and not expected:
        raise failure
    if not log.good or log.run is None or log.run.mpi is None or "host" in refused:
        raise StepError(f"the transfer did not end; full log: {said}", tail(said))
    memory = "host" if refused else "device"
    sizes = " and ".join(map(format_size, dict.fromkeys(point.size_bytes for point in log.records)))
    head = f"verified: {sizes} round trips between two ranks on {memory} memory, all bytes correct"
    library = escape_controls(log.run.mpi.library)
    if refused:
        why = escape_controls(refused["device"] or "the engine gave no reason")
        return [
            f"{head}; {library}",
            f"NOT TESTED: device memory, because {why}; run this again on a machine with a GPU",
        ]
    shared = len({rank.device.uuid for rank in log.run.ranks if rank.device}) == 1
    return [head + "; both ranks shared the one GPU" * shared, f"this MPI is CUDA-aware: {library}"]
