"""The transports of the engine: what moves the bytes of each, and which way they take between two GPUs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal

TRANSPORTS = {
    "host": "MPI_Send, MPI_Recv",
    "host/nonblocking": "MPI_Isend, MPI_Irecv, MPI_Wait",
    "host/persistent": "persistent requests of MPI",
    "host/partitioned": "partitioned messages of MPI, 8 parts",
    "host/vector": "MPI_Type_vector, doubles 64 bytes apart",
    "host/vector/packed": "doubles 64 bytes apart, copied to a buffer for MPI",
    "host/threads/2": "MPI_Send, MPI_Recv of 2 threads of a rank",
    "host/threads/4": "MPI_Send, MPI_Recv of 4 threads of a rank",
    "host/threads/8": "MPI_Send, MPI_Recv of 8 threads of a rank",
    "host/put": "MPI_Put, MPI_Win_flush",
    "host/put/blocking": "MPI_Put, MPI_Win_flush after each",
    "host/put/fence": "MPI_Put, MPI_Win_fence",
    "host/put/pscw": "MPI_Put, MPI_Win_start, MPI_Win_complete",
    "host/put/accumulate": "MPI_Accumulate, MPI_Win_flush after each",
    "host/get": "MPI_Get, MPI_Win_flush",
    "host/get/blocking": "MPI_Get, MPI_Win_flush after each",
    "host/get/pscw": "MPI_Get, MPI_Win_start, MPI_Win_complete",
    "host/get/accumulate": "MPI_Get_accumulate, MPI_Win_flush after each",
    "host/get/fetch-and-op": "MPI_Fetch_and_op of 8 bytes, MPI_Win_flush",
    "host/get/compare-and-swap": "MPI_Compare_and_swap of 8 bytes, MPI_Win_flush",
    "staged": "copy, blocking or in chunks",
    "staged/pageable": "cudaMemcpy of the whole message",
    "staged/pinned": "copy of the whole message, pinned memory",
    "staged/pipelined": "copy in chunks, pinned memory",
    "staged/shared": "copy, one segment that both ranks map",
    "aware": "MPI on device pointers",
    "aware/nonblocking": "MPI_Isend, MPI_Irecv on device pointers",
    "aware/persistent": "persistent requests of MPI on device pointers",
    "aware/vector": "MPI_Type_vector on device pointers, doubles 64 bytes apart",
    "aware/put": "MPI_Put on device pointers",
    "aware/put/blocking": "MPI_Put on device pointers, MPI_Win_flush after each",
    "aware/put/fence": "MPI_Put on device pointers, MPI_Win_fence",
    "aware/get": "MPI_Get on device pointers",
    "aware/get/blocking": "MPI_Get on device pointers, MPI_Win_flush after each",
    "peer": "copy engine, CUDA IPC",
    "device": "a kernel stores into the peer's memory",
    "device/word": "a thread stores 8 bytes and a flag into the peer's memory",
    "nccl": "ncclSend, ncclRecv",
    "nccl/allocated": "ncclSend, ncclRecv on buffers from ncclMemAlloc",
    "nccl/registered": "ncclSend, ncclRecv on registered buffers",
    "nccl/graph": "ncclSend, ncclRecv in a CUDA graph",
    "nccl/device": "a kernel with NCCL's device API",
    "nvshmem": "a kernel puts with NVSHMEM",
}
"""What moves the bytes; ``staged`` stands for its whole family."""

NOTHING_FOR_GPUS = ("no NVIDIA GPU here", "no NVIDIA driver")
"""Reasons of the engine, without CUDA and with it, that hold for all transports in GPU memory."""

Route = Literal["direct", "staged"]
ROUTES: dict[str, Route] = {
    "staged": "staged",
    "aware": "direct",
    "peer": "direct",
    "device": "direct",
    "nccl": "direct",
    "nvshmem": "direct",
}
"""How the families of transports get from one GPU to another: from GPU to GPU, or each through its host.  Others have
no line rate that is known: what host memory allows is described nowhere."""


HOST_RATE_BPS = 4e9
"""Host memory moves this many bytes per second between two ranks of a node: for estimates before anything was measured.
"""


def through_host(transport: str) -> bool:
    """Return whether the bytes of messages move through the memory of the host."""
    return transport.startswith(("host", "staged/"))


def have_threads(words: Iterable[str]) -> bool:
    """Return whether these words of ``--transport``, or names, ask for several threads of a rank that call MPI."""
    return any("threads" in word.split("/") for word in words)


def meant(word: str, transports: Collection[str]) -> list[str]:
    """Return which of these a word of ``--transport`` means: the one of this name, else all with it in their names.

    >>> meant("put", ["host", "host/put", "put", "put/fence"]), meant("host", ["host/put", "put"])
    (['put'], ['host/put'])
    """
    return [word] if word in transports else [each for each in transports if word in each.split("/")]


def without_fault(transport: str) -> str:
    """Return a text without the fault that a test gives a transport: ``host, 8 B`` of ``host+flip, 8 B``."""
    return re.sub(r"\+\w+", "", transport)


def family_of(transport: str) -> str:
    """Return the part of a name that related transports share: ``staged`` of ``staged/pinned``."""
    return transport.partition("/")[0]
