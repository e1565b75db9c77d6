#include <algorithm>
#include <list>

#include "transport/registry.hpp"

namespace volley {

// The file of each transport defines its maker.
using TransportMaker = std::unique_ptr<Transport>();
TransportMaker make_mpi, make_null, make_nonblocking, make_persistent, make_partitioned, make_vector,
    make_vector_packed, make_two_threads, make_four_threads, make_eight_threads;
TransportMaker make_put, make_put_blocking, make_put_fence, make_put_pscw, make_accumulate, make_get, make_get_blocking,
    make_get_pscw, make_get_accumulate, make_fetch_and_op, make_compare_and_swap;
TransportMaker make_staged_pageable, make_staged_pinned, make_staged_pipelined, make_staged_shared, make_peer,
    make_device, make_device_word, make_nccl, make_nccl_allocated, make_nccl_registered, make_nccl_graph,
    make_nccl_device, make_nvshmem;
#if VOLLEY_WITH_CUDA
#define WITH_CUDA(make) make
#else
#define WITH_CUDA(make) make_null  // listed as unavailable, with the reason of gpu/without_cuda.cpp
#endif
#if VOLLEY_WITH_NCCL_HEADERS
#define WITH_NCCL(make) make
#else
#define WITH_NCCL(make) nullptr
#endif
#if VOLLEY_WITH_NVSHMEM_HEADERS
#define WITH_NVSHMEM(make) make
#else
#define WITH_NVSHMEM(make) nullptr
#endif

namespace {

using enum ThroughMpi;
using enum Tier;
using enum MemoryKind;

// In which memory MPI has the messages of a transport.
struct MpiMemory {
  ThroughMpi mpi;
  MemoryKind memory;
  const char* words;
};
constexpr MpiMemory in_host{yes, host, ", host memory"}, on_device{on_device_pointers, device, ", on device pointers"};

// One of MPI that few ask for.
TransportEntry extra_of(const MpiMemory& where, const char* name, const std::string& moves, TransportMaker* make,
                        const std::string& collectives = "", bool halos = false) {
  const std::string also = collectives.empty() ? "" : collectives + where.words;
  return {name, moves + where.words, where.mpi, where.memory, extra, halos, make, "", also};
}

// name, what moves the bytes, through MPI?, memory, whose runs have it, halos?, maker, why there may be none, what
// moves the bytes of collectives
const TransportEntry entries[] = {
    {"host", "MPI, host memory", yes, host, usual, true, make_mpi, "", "MPI, host memory"},
    extra_of(in_host, "host/nonblocking", "MPI_Isend, MPI_Irecv and MPI_Wait", make_nonblocking,
             "MPI's non-blocking collectives and MPI_Wait"),
    extra_of(in_host, "host/persistent", "MPI's persistent requests", make_persistent, "MPI's persistent collectives"),
    extra_of(in_host, "host/partitioned", "MPI's partitioned messages, 8 parts", make_partitioned),
    extra_of(in_host, "host/vector", "MPI_Type_vector: doubles 64 bytes apart", make_vector, "", /*halos*/ true),
    extra_of(in_host, "host/vector/packed", "doubles 64 bytes apart, copied to a buffer for MPI", make_vector_packed),
    extra_of(in_host, "host/threads/2", "MPI, called by 2 threads of each rank at once", make_two_threads),
    extra_of(in_host, "host/threads/4", "MPI, called by 4 threads of each rank at once", make_four_threads),
    extra_of(in_host, "host/threads/8", "MPI, called by 8 threads of each rank at once", make_eight_threads),
    extra_of(in_host, "host/put", "MPI_Put and MPI_Win_flush", make_put),
    extra_of(in_host, "host/put/blocking", "MPI_Put, one message after the other", make_put_blocking),
    extra_of(in_host, "host/put/fence", "MPI_Put and MPI_Win_fence", make_put_fence),
    extra_of(in_host, "host/put/pscw", "MPI_Put, MPI_Win_post, start, complete and wait", make_put_pscw),
    extra_of(in_host, "host/put/accumulate", "MPI_Accumulate that replaces, one message after the other",
             make_accumulate),
    extra_of(in_host, "host/get", "MPI_Get and MPI_Win_flush", make_get),
    extra_of(in_host, "host/get/blocking", "MPI_Get, one message after the other", make_get_blocking),
    extra_of(in_host, "host/get/pscw", "MPI_Get, MPI_Win_post, start, complete and wait", make_get_pscw),
    extra_of(in_host, "host/get/accumulate", "MPI_Get_accumulate without a change, one message after the other",
             make_get_accumulate),
    extra_of(in_host, "host/get/fetch-and-op", "MPI_Fetch_and_op of 8 bytes, one message after the other",
             make_fetch_and_op),
    extra_of(in_host, "host/get/compare-and-swap", "MPI_Compare_and_swap of 8 bytes, one message after the other",
             make_compare_and_swap),
    {"staged/pageable", "GPU - host - MPI - host - GPU, pageable memory, whole messages", yes, device, usual, true,
     WITH_CUDA(make_staged_pageable)},
    {"staged/pinned", "GPU - host - MPI - host - GPU, pinned memory, whole messages", yes, device, usual, true,
     WITH_CUDA(make_staged_pinned), "", "GPU - host - MPI - host - GPU, pinned memory, one after the other"},
    {"staged/pipelined", "GPU - host - MPI - host - GPU, pinned chunks, overlapped", yes, device, usual, false,
     WITH_CUDA(make_staged_pipelined)},
    {"staged/shared", "GPU - shared host memory - GPU, overlapped", no, device, usual, false,
     WITH_CUDA(make_staged_shared)},
    {"aware", "MPI on device pointers, CUDA-aware", on_device_pointers, device, usual, true, make_mpi, "",
     "MPI on device pointers, CUDA-aware"},
    extra_of(on_device, "aware/nonblocking", "MPI_Isend, MPI_Irecv and MPI_Wait", make_nonblocking,
             "MPI's non-blocking collectives and MPI_Wait"),
    extra_of(on_device, "aware/persistent", "MPI's persistent requests", make_persistent,
             "MPI's persistent collectives"),
    extra_of(on_device, "aware/vector", "MPI_Type_vector: doubles 64 bytes apart", make_vector),
    extra_of(on_device, "aware/put", "MPI_Put and MPI_Win_flush", make_put),
    extra_of(on_device, "aware/put/blocking", "MPI_Put, one message after the other", make_put_blocking),
    extra_of(on_device, "aware/put/fence", "MPI_Put and MPI_Win_fence", make_put_fence),
    extra_of(on_device, "aware/get", "MPI_Get and MPI_Win_flush", make_get),
    extra_of(on_device, "aware/get/blocking", "MPI_Get, one message after the other", make_get_blocking),
    {"peer", "copy engine over CUDA IPC", no, device, usual, true, WITH_CUDA(make_peer)},
    {"device", "GPU kernels store into peer memory", no, device, usual, true, WITH_CUDA(make_device)},
    {"device/word", "GPU threads store 8 bytes and a flag into peer memory", no, device, usual, false,
     WITH_CUDA(make_device_word)},
    {"nccl", "ncclSend and ncclRecv", no, device, usual, true, WITH_CUDA(make_nccl), "", "NCCL's collectives"},
    {"nccl/allocated", "ncclSend and ncclRecv, buffers from ncclMemAlloc", no, device, extra, false,
     WITH_CUDA(make_nccl_allocated), "", "NCCL's collectives, buffers from ncclMemAlloc"},
    {"nccl/registered", "ncclSend and ncclRecv, buffers from ncclMemAlloc, registered", no, device, extra, false,
     WITH_CUDA(make_nccl_registered), "", "NCCL's collectives, buffers from ncclMemAlloc, registered"},
    {"nccl/graph", "ncclSend and ncclRecv, buffers from ncclMemAlloc, a CUDA graph for each batch", no, device, extra,
     false, WITH_CUDA(make_nccl_graph), "",
     "NCCL's collectives, buffers from ncclMemAlloc, a CUDA graph for each batch"},
    {"nccl/device", "GPU kernels with NCCL's device API", no, device, usual, false, WITH_NCCL(make_nccl_device),
     "this engine was built without the headers of NCCL's device API (NCCL 2.28 or newer, from NCCL_HOME or the wheel "
     "nvidia-nccl-cu13); build it again with them"},
    {"nvshmem", "GPU kernels put with NVSHMEM", no, device, usual, false, WITH_NVSHMEM(make_nvshmem),
     "this engine was built without the headers of NVSHMEM (3.3 to 3.8, from NVSHMEM_HOME or the wheel "
     "nvidia-nvshmem-cu13); "
     "build it again with them"},
    {"null", "nothing: the engine's own overhead", no, none, extra, false, make_null},
};

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

// Why these ranks cannot have messages in device memory; empty when they can.
std::string without_devices(const Context& context, const std::vector<int>& ranks, bool share_device) {
  if (context.gpus.devices == 0) return context.gpus.reason;
  for (auto one = ranks.begin(); one != ranks.end(); ++one) {
    const int gpu = context.gpu(*one);
    if (gpu < 0) return "rank " + std::to_string(*one) + " has no device";
    const auto other = std::find_if(ranks.begin(), one, [&](int rank) { return context.gpu(rank) == gpu; });
    if (share_device || other == one) continue;
    const std::string others = context.gpus.devices > 1 ? ", and --gpus chooses others" : "";
    return "ranks " + std::to_string(*other) + " and " + std::to_string(*one) +
           " are on one GPU: --share-gpu allows that" + others;
  }
  return {};
}

}  // namespace

std::span<const TransportEntry> registry() { return entries; }

// An entry with a fault is made when it is first asked for, and kept: records and plans refer to it.
const TransportEntry* find_transport(std::string_view name) {
  const std::string_view right = without_fault(name);
  const auto* const found = std::ranges::find(entries, right, &TransportEntry::name);
  if (found == std::end(entries)) return nullptr;
  if (right == name) return found;
  const auto fault = std::ranges::find(faults(), name.substr(right.size() + 1), &FaultEntry::name);
  if (fault == faults().end()) return nullptr;

  static std::list<TransportEntry> kept;
  TransportEntry& made = kept.emplace_back(*found);
  made.name = name;
  made.summary = std::string("test: ") + fault->summary;
  if (!made.collectives.empty()) made.collectives = made.summary;
  made.fault = fault->fault;
  if (found->make) {
    made.make = [make = found->make, fault, memory = found->memory] {
      return with_fault(make(), fault->fault, memory);
    };
  }
  return &made;
}

std::string ruled_out(const Context& context, const std::vector<int>& ranks, const Plan& plan,
                      const TransportEntry& entry, bool collectives) {
  if (entry.memory == MemoryKind::device) {
    const std::string reason = without_devices(context, ranks, plan.share_device);
    if (!reason.empty()) return reason;
  }
  // A transport is excluded because opening it may end the process; a rank alone opens nothing.
  const auto excluded = plan.excluded.find(entry.name);
  if (excluded != plan.excluded.end() && ranks.size() > 1) return excluded->second;
  if (collectives && entry.collectives.empty()) {
    return "it sends between two ranks; collectives run through MPI, NCCL and pinned host memory";
  }
  return entry.make ? "" : entry.missing;
}

std::uint64_t memory_share(const Context& context, MemoryKind kind, const Memory* memory, MPI_Comm comm) {
  const auto& where = kind == MemoryKind::host ? context.node_of : context.gpu_of;
  const int here = where[static_cast<std::size_t>(context.rank)];
  const auto sharers = static_cast<std::uint64_t>(std::ranges::count(where, here));  // this rank is one of them
  std::uint64_t share = memory == nullptr ? unlimited : memory->available() / sharers;
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &share, 1, MPI_UINT64_T, MPI_MIN, comm));
  return share;
}

// Device memory has the most space around a message.
std::uint64_t bytes_of_buffers(std::uint64_t message_bytes) {
  if (message_bytes > unlimited / 2 - gpu::overhead_bytes_per_buffer) return unlimited;
  return 2 * (message_bytes + gpu::overhead_bytes_per_buffer);
}

}  // namespace volley
