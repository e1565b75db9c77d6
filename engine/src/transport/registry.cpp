#include "transport/registry.hpp"

#include <array>

#include "transport/makers.hpp"

namespace volley {

namespace {

constexpr auto none = MemoryKind::none;
constexpr auto host = MemoryKind::host;
#if VOLLEY_WITH_CUDA
constexpr auto device = MemoryKind::device;
#endif

// name, what moves the bytes, through MPI?, memory, test?, maker, maker for halos
constexpr std::array entries{
    TransportEntry{"host", "MPI, host memory", true, host, false, make_host, make_host_halo},
#if VOLLEY_WITH_CUDA
    TransportEntry{"staged/pageable", "GPU - host - MPI - host - GPU, pageable memory, whole messages", true, device,
                   false, make_staged_pageable},
    TransportEntry{"staged/pinned", "GPU - host - MPI - host - GPU, pinned memory, whole messages", true, device, false,
                   make_staged_pinned, make_staged_halo},
    TransportEntry{"staged/pipelined", "GPU - host - MPI - host - GPU, pinned chunks, overlapped", true, device, false,
                   make_staged_pipelined},
    TransportEntry{"staged/shared", "GPU - shared host memory - GPU, overlapped", false, device, false,
                   make_staged_shared},
    TransportEntry{"aware", "MPI on device pointers, CUDA-aware", true, device, false, make_aware, make_aware_halo},
    TransportEntry{"peer", "copy engine over CUDA IPC", false, device, false, make_peer, make_peer_halo},
    TransportEntry{"device", "GPU kernels store into peer memory", false, device, false, make_device, make_device_halo},
    TransportEntry{"nccl", "ncclSend and ncclRecv", false, device, false, make_nccl, make_nccl_halo},
    TransportEntry{"corrupt-device", "test: staged/pinned with one bit flipped", true, device, true,
                   make_corrupt_device, make_corrupt_device_halo},
#endif
    TransportEntry{"null", "nothing: the harness's own overhead", false, none, false, make_null},
    TransportEntry{"corrupt", "test: host with one bit flipped", true, host, true, make_corrupt, make_corrupt_halo},
    TransportEntry{"early", "test: of each batch only the first exchange", true, host, true, make_early},
    TransportEntry{"echo", "test: moves nothing, hands back what was sent", false, host, true, make_echo,
                   make_echo_halo},
    TransportEntry{"nan", "test: host, and a halo of NaNs", true, host, true, make_host, make_nan_halo},
    TransportEntry{"hang", "test: host, and the second rank stops", true, host, true, make_hang},
    TransportEntry{"unopened", "test: host, and the second rank cannot open it", true, host, true, make_unopened},
    TransportEntry{"delay", "test: host, with 0.2 ms before each message between ranks 0 and 2", true, host, true,
                   make_delay},
};

}  // namespace

std::span<const TransportEntry> registry() { return entries; }

}  // namespace volley
