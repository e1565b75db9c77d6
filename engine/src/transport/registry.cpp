#include "transport/registry.hpp"

#include <algorithm>

namespace volley {

// The file of each transport defines its maker.
using Maker = std::unique_ptr<Transport>();
Maker make_host, make_null, make_aware;
#if VOLLEY_WITH_CUDA
Maker make_staged_pageable, make_staged_pinned, make_staged_pipelined, make_staged_shared, make_peer, make_device,
    make_device_word, make_nccl, make_corrupt_device, make_without_nccl_headers, make_without_nvshmem_headers;
#else  // listed as unavailable, with the reason of gpu/without_cuda.cpp
constexpr Maker *make_staged_pageable = make_null, *make_staged_pinned = make_null, *make_staged_pipelined = make_null,
                *make_staged_shared = make_null, *make_peer = make_null, *make_device = make_null,
                *make_device_word = make_null, *make_nccl = make_null, *make_corrupt_device = make_null,
                *make_without_nccl_headers = make_null, *make_without_nvshmem_headers = make_null;
#endif
#if VOLLEY_WITH_NCCL_HEADERS
Maker make_nccl_device;
#else
constexpr Maker* make_nccl_device = make_without_nccl_headers;
#endif
#if VOLLEY_WITH_NVSHMEM_HEADERS
Maker make_nvshmem;
#else
constexpr Maker* make_nvshmem = make_without_nvshmem_headers;
#endif
Maker make_corrupt, make_early, make_lose, make_swap, make_echo, make_nan, make_hang, make_unopened, make_delay;

namespace {

constexpr auto none = MemoryKind::none;
constexpr auto host = MemoryKind::host;
constexpr auto device = MemoryKind::device;

// name, what moves the bytes, through MPI?, memory, test?, halos?, maker
constexpr TransportEntry entries[] = {
    {"host", "MPI, host memory", true, host, false, true, make_host},
    {"staged/pageable", "GPU - host - MPI - host - GPU, pageable memory, whole messages", true, device, false, false,
     make_staged_pageable},
    {"staged/pinned", "GPU - host - MPI - host - GPU, pinned memory, whole messages", true, device, false, true,
     make_staged_pinned},
    {"staged/pipelined", "GPU - host - MPI - host - GPU, pinned chunks, overlapped", true, device, false, false,
     make_staged_pipelined},
    {"staged/shared", "GPU - shared host memory - GPU, overlapped", false, device, false, false, make_staged_shared},
    {"aware", "MPI on device pointers, CUDA-aware", true, device, false, true, make_aware},
    {"peer", "copy engine over CUDA IPC", false, device, false, true, make_peer},
    {"device", "GPU kernels store into peer memory", false, device, false, true, make_device},
    {"device/word", "GPU threads store 8 bytes and a flag into peer memory", false, device, false, false,
     make_device_word},
    {"nccl", "ncclSend and ncclRecv", false, device, false, true, make_nccl},
    {"nccl/device", "GPU kernels with NCCL's device API", false, device, false, false, make_nccl_device},
    {"nvshmem", "GPU kernels put with NVSHMEM", false, device, false, false, make_nvshmem},
    {"corrupt-device", "test: staged/pinned with one bit flipped", true, device, true, true, make_corrupt_device},
    {"null", "nothing: the engine's own overhead", false, none, false, false, make_null},
    {"corrupt", "test: host with one bit flipped", true, host, true, true, make_corrupt},
    {"early", "test: of each batch only the first exchange", true, host, true, false, make_early},
    {"lose", "test: host, and the third message of each batch or window is lost", true, host, true, false, make_lose},
    {"swap", "test: host, and two messages of each batch or window arrive in each other's place", true, host, true,
     false, make_swap},
    {"echo", "test: moves nothing, a rank receives what it sent", false, host, true, true, make_echo},
    {"nan", "test: host, and a halo of NaNs", true, host, true, true, make_nan},
    {"hang", "test: host, and the second rank stops", true, host, true, false, make_hang},
    {"unopened", "test: host, and the second rank cannot open it", true, host, true, false, make_unopened},
    {"delay", "test: host, with 0.2 ms before each message between ranks 0 and 2", true, host, true, false, make_delay},
};

}  // namespace

std::span<const TransportEntry> registry() { return entries; }

const TransportEntry* find_transport(std::string_view name, std::span<const TransportEntry> among) {
  const auto found = std::ranges::find(among, name, &TransportEntry::name);
  return found == among.end() ? nullptr : &*found;
}

}  // namespace volley
