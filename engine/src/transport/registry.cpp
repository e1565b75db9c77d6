#include "transport/registry.hpp"

#include <algorithm>
#include <list>
#include <string>

namespace volley {

// The file of each transport defines its maker.
using Maker = std::unique_ptr<Transport>();
Maker make_mpi, make_null;
Maker make_put, make_put_blocking, make_put_fence, make_get, make_get_blocking;
#if VOLLEY_WITH_CUDA
Maker make_staged_pageable, make_staged_pinned, make_staged_pipelined, make_staged_shared, make_peer, make_device,
    make_device_word, make_nccl, make_nccl_allocated;
#else  // listed as unavailable, with the reason of gpu/without_cuda.cpp
constexpr Maker *make_staged_pageable = make_null, *make_staged_pinned = make_null, *make_staged_pipelined = make_null,
                *make_staged_shared = make_null, *make_peer = make_null, *make_device = make_null,
                *make_device_word = make_null, *make_nccl = make_null, *make_nccl_allocated = make_null;
#endif
#if VOLLEY_WITH_NCCL_HEADERS
Maker make_nccl_device;
#else
constexpr Maker* make_nccl_device = nullptr;
#endif
#if VOLLEY_WITH_NVSHMEM_HEADERS
Maker make_nvshmem;
#else
constexpr Maker* make_nvshmem = nullptr;
#endif

namespace {

using enum ThroughMpi;
using enum Tier;
using enum MemoryKind;

// name, what moves the bytes, through MPI?, memory, whose runs have it, halos?, maker, why there may be none
const TransportEntry entries[] = {
    {"host", "MPI, host memory", yes, host, usual, true, make_mpi},
    {"host/put", "MPI_Put and MPI_Win_flush, host memory", yes, host, extra, false, make_put},
    {"host/put/blocking", "MPI_Put, one message after the other, host memory", yes, host, extra, false,
     make_put_blocking},
    {"host/put/fence", "MPI_Put and MPI_Win_fence, host memory", yes, host, extra, false, make_put_fence},
    {"host/get", "MPI_Get and MPI_Win_flush, host memory", yes, host, extra, false, make_get},
    {"host/get/blocking", "MPI_Get, one message after the other, host memory", yes, host, extra, false,
     make_get_blocking},
    {"staged/pageable", "GPU - host - MPI - host - GPU, pageable memory, whole messages", yes, device, usual, false,
     make_staged_pageable},
    {"staged/pinned", "GPU - host - MPI - host - GPU, pinned memory, whole messages", yes, device, usual, true,
     make_staged_pinned},
    {"staged/pipelined", "GPU - host - MPI - host - GPU, pinned chunks, overlapped", yes, device, usual, false,
     make_staged_pipelined},
    {"staged/shared", "GPU - shared host memory - GPU, overlapped", no, device, usual, false, make_staged_shared},
    {"aware", "MPI on device pointers, CUDA-aware", on_device_pointers, device, usual, true, make_mpi},
    {"aware/put", "MPI_Put and MPI_Win_flush on device pointers", on_device_pointers, device, extra, false, make_put},
    {"aware/put/blocking", "MPI_Put, one message after the other, on device pointers", on_device_pointers, device,
     extra, false, make_put_blocking},
    {"aware/put/fence", "MPI_Put and MPI_Win_fence on device pointers", on_device_pointers, device, extra, false,
     make_put_fence},
    {"aware/get", "MPI_Get and MPI_Win_flush on device pointers", on_device_pointers, device, extra, false, make_get},
    {"aware/get/blocking", "MPI_Get, one message after the other, on device pointers", on_device_pointers, device,
     extra, false, make_get_blocking},
    {"peer", "copy engine over CUDA IPC", no, device, usual, true, make_peer},
    {"device", "GPU kernels store into peer memory", no, device, usual, true, make_device},
    {"device/word", "GPU threads store 8 bytes and a flag into peer memory", no, device, usual, false,
     make_device_word},
    {"nccl", "ncclSend and ncclRecv", no, device, usual, true, make_nccl},
    {"nccl/allocated", "ncclSend and ncclRecv, buffers from ncclMemAlloc", no, device, extra, false,
     make_nccl_allocated},
    {"nccl/device", "GPU kernels with NCCL's device API", no, device, usual, false, make_nccl_device,
     "this engine was built without the headers of NCCL's device API (NCCL 2.28 or newer, from NCCL_HOME or the wheel "
     "nvidia-nccl-cu13); build it again with them"},
    {"nvshmem", "GPU kernels put with NVSHMEM", no, device, usual, false, make_nvshmem,
     "this engine was built without the headers of NVSHMEM (3.4, from NVSHMEM_HOME or the wheel nvidia-nvshmem-cu13); "
     "build it again with them"},
    {"null", "nothing: the engine's own overhead", no, none, extra, false, make_null},
};

}  // namespace

std::span<const TransportEntry> registry() { return entries; }

const TransportEntry* find_transport(std::string_view name) { return find_among(entries, name, with_fault); }

// An entry with a fault is made when it is first asked for, and kept: records and plans refer to it.
const TransportEntry* find_among(std::span<const TransportEntry> among, std::string_view name,
                                 FaultDecorator decorate) {
  const std::size_t plus = name.find('+');
  const auto found = std::ranges::find(among, name.substr(0, plus), &TransportEntry::name);
  if (found == among.end()) return nullptr;
  if (plus == std::string_view::npos) return &*found;
  const auto fault = std::ranges::find(faults(), name.substr(plus + 1), &FaultEntry::name);
  if (fault == faults().end()) return nullptr;

  struct Named {
    std::string name;
    std::string summary;
    TransportEntry entry;
  };
  static std::list<Named> kept;
  Named& made = kept.emplace_back(Named{std::string(name), std::string("test: ") + fault->summary, *found});
  made.entry.name = made.name.c_str();
  made.entry.summary = made.summary.c_str();
  made.entry.fault = fault->fault;
  if (decorate != nullptr && found->make) {
    made.entry.make = [make = found->make, decorate, fault, memory = found->memory] {
      return decorate(make(), fault->fault, memory);
    };
  }
  return &made.entry;
}

}  // namespace volley
