"""CUDA 12's compiler takes the kernels for a V100 (compute capability 7.0), which CUDA 13 no longer compiles for.

No wheel has CUDA 12's nvcc. One has its run-time compiler, NVRTC, which compiles device code alone: so the headers that
hold kernels are compiled, with the standard library of CUDA (libcu++) in place of the host's.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from installations import CHECKOUT

STANDARD = ("array", "cstddef", "cstdint", "limits", "optional", "type_traits", "utility")
OWN_WORDS = {"algorithm": "<cuda/std/__algorithm/clamp.h>\n#include <cuda/std/__algorithm/max.h>\n"
                          "#include <cuda/std/__algorithm/min.h>"}  # fmt: skip
HEADERS = {each: f"<cuda/std/{each}>" for each in STANDARD} | OWN_WORDS
LINKS = "volley::device::"
KERNELS = {
    "transport/device/kernels.cuh": [
        f"{LINKS}short_round_trips<volley::gpu::kernels::JoinBlock>",
        *(LINKS + each for each in ("long_round_trips", "exchange_windows", "store_halo", "await_halo")),
    ],
    "jacobi/device/interior_sweep.cuh": [
        f"volley::jacobi::sweep_interior<{real}, {reduces}>" for real in ("float", "double") for reduces in (0, 1)
    ],
}


def wheels() -> Path:
    """The folder of CUDA 12's wheels."""
    nvidia = pytest.importorskip("nvidia.cuda_nvrtc", reason="the wheel nvidia-cuda-nvrtc-cu12 is not installed")
    return Path(next(iter(nvidia.__path__))).parent


class Program:
    """Source text for NVRTC (https://docs.nvidia.com/cuda/nvrtc/); its functions return 0 where they succeed."""

    def __init__(self, text: str) -> None:
        self.home = wheels()
        self.nvrtc = ctypes.CDLL(str(self.home / "cuda_nvrtc/lib/libnvrtc.so.12"))
        self.handle = ctypes.c_void_p()
        names = (ctypes.c_char_p * len(HEADERS))(*(name.encode() for name in HEADERS))
        texts = (ctypes.c_char_p * len(HEADERS))(
            *(f"#pragma once\n#include {theirs}\nnamespace std {{ using namespace cuda::std; }}\n".encode()
              for theirs in HEADERS.values())
        )  # fmt: skip
        made = self.nvrtc.nvrtcCreateProgram(
            ctypes.byref(self.handle), text.encode(), b"kernels.cu", len(HEADERS), texts, names
        )
        assert made == 0

    def compile(self, kernels: list[str]) -> tuple[int, str]:
        """Compile for 7.0; return the status and what the compiler says."""
        for kernel in kernels:
            assert self.nvrtc.nvrtcAddNameExpression(self.handle, kernel.encode()) == 0
        folders = [CHECKOUT / "engine/src", CHECKOUT / "engine/apps"]
        folders.append(self.home / "cuda_cccl/include")
        words = ["--gpu-architecture=sm_70", "--std=c++20", "-default-device", *(f"-I{folder}" for folder in folders)]
        status = self.nvrtc.nvrtcCompileProgram(
            self.handle, len(words), (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
        )
        size = ctypes.c_size_t()
        self.nvrtc.nvrtcGetProgramLogSize(self.handle, ctypes.byref(size))
        said = ctypes.create_string_buffer(size.value)
        self.nvrtc.nvrtcGetProgramLog(self.handle, said)
        return status, said.value.decode()

    def machine_code(self) -> bytes:
        size = ctypes.c_size_t()
        assert self.nvrtc.nvrtcGetCUBINSize(self.handle, ctypes.byref(size)) == 0
        code = ctypes.create_string_buffer(size.value)
        assert self.nvrtc.nvrtcGetCUBIN(self.handle, code) == 0
        return code.raw


@pytest.mark.parametrize("header", KERNELS)
def test_kernels_are_compiled_for_a_v100(header: str) -> None:
    program = Program(f'#include "{header}"\n')
    status, said = program.compile(KERNELS[header])
    assert status == 0, said
    code = program.machine_code()
    for kernel in KERNELS[header]:
        assert kernel.partition("<")[0].rpartition("::")[2].encode() in code


def test_what_7_0_lacks_is_refused() -> None:
    status, said = Program('__global__ void cluster() { asm volatile("barrier.cluster.arrive;"); }').compile(
        ["cluster"]
    )
    assert status != 0
    assert "sm_90" in said
