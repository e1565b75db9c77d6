#include "benchmark/gpu_matrix/section.hpp"

#include <algorithm>

#include "faults/faults.hpp"

namespace volley::gpu_matrix {
namespace {

constexpr std::uint64_t MiB = std::uint64_t{1} << 20;
// A window of copies takes 11 ms over the NVLinks of an H200. About 15 us of that, 0.15 %, are for starting and
// completing it and for the steps from one message to the next.
constexpr std::uint64_t large = 512 * MiB;
constexpr int many = 8;
// In quick mode: 1.4 ms, and 1.1 %.
constexpr std::uint64_t large_quick = 128 * MiB;
constexpr int several = 4;
// Through the host a copy takes ten times as long, so that one is enough for a window.
constexpr std::uint64_t staged = 128 * MiB;
constexpr std::uint64_t staged_quick = 64 * MiB;
// The host fills and checks these messages.
constexpr std::uint64_t with_host = 64 * MiB;
// One int4, as the CUDA sample p2pBandwidthLatencyTest copies it.
constexpr std::uint64_t small = 16;
constexpr std::uint64_t word = 8;
// Consecutive loads use different lines, and all of them fit into the second-level cache of any GPU.
constexpr std::uint64_t chased = 16 << 10;

using enum Metric;
using enum Direction;
using enum Engine;
using enum AccessOperation;
using enum Ends;
constexpr bool off = false;
constexpr bool on = true;

// name, metric, what moves the data, write or read, one or both, ends, peer access, bytes, window, fault
constexpr std::array table{
    Section{"host-to-gpu", bandwidth, copy_engine, write, uni, host_to_gpu, off, with_host, several},
    Section{"gpu-to-host", bandwidth, copy_engine, write, uni, gpu_to_host, off, with_host, several},
    Section{"bi/host", bandwidth, copy_engine, write, bi, host_to_gpu, off, with_host, several},
    Section{"host-to-gpu/kernel", bandwidth, sm, read, uni, host_to_gpu, off, with_host, several},
    Section{"gpu-to-host/kernel", bandwidth, sm, write, uni, gpu_to_host, off, with_host, several},
    Section{"bi/host/kernel", bandwidth, sm, read, bi, host_to_gpu, off, with_host, several},
    Section{"host-to-gpu/all", bandwidth, copy_engine, write, uni, host_to_all_gpus, off, with_host, several},
    Section{"gpu-to-host/all", bandwidth, copy_engine, write, uni, all_gpus_to_host, off, with_host, several},
    Section{"bi/host/all", bandwidth, copy_engine, write, bi, host_to_all_gpus, off, with_host, several},
    Section{"load/host", load, sm, read, uni, host_to_gpu, off, chased, 1},
    Section{"uni/off", bandwidth, copy_engine, write, uni, gpus, off, staged, 1},
    Section{"bi/off", bandwidth, copy_engine, write, bi, gpus, off, staged, 1},
    Section{"completion/off", completion, copy_engine, write, uni, gpus, off, small, 1},
    Section{"issue/off", issue, copy_engine, write, uni, gpus, off, small, 1},
    Section{"enqueue/off", enqueue, copy_engine, write, uni, gpus, off, small, 1},
    Section{"uni", bandwidth, copy_engine, write, uni, gpus, on, large, many},
    Section{"uni/read", bandwidth, copy_engine, read, uni, gpus, on, large, many},
    Section{"bi", bandwidth, copy_engine, write, bi, gpus, on, large, many},
    Section{"uni/kernel", bandwidth, sm, write, uni, gpus, on, large, many},
    Section{"uni/kernel-read", bandwidth, sm, read, uni, gpus, on, large, many},
    Section{"bi/kernel", bandwidth, sm, write, bi, gpus, on, large, many},
    Section{"completion", completion, copy_engine, write, uni, gpus, on, small, 1},
    Section{"issue", issue, copy_engine, write, uni, gpus, on, small, 1},
    Section{"enqueue", enqueue, copy_engine, write, uni, gpus, on, small, 1},
    Section{"store", store, sm, write, uni, gpus, on, word, 1},
    Section{"load", load, sm, read, uni, gpus, on, chased, 1},
    Section{"bi/host/all+flip", bandwidth, copy_engine, write, bi, host_to_all_gpus, off, with_host, several,
            Fault::flip},
    Section{"gpu-to-host/kernel+lose", bandwidth, sm, write, uni, gpu_to_host, off, with_host, several, Fault::lose},
    Section{"uni+flip", bandwidth, copy_engine, write, uni, gpus, on, large, many, Fault::flip},
    Section{"uni+early", bandwidth, copy_engine, write, uni, gpus, on, large, many, Fault::early},
    Section{"uni+late", bandwidth, copy_engine, write, uni, gpus, on, large, many, Fault::late},
    Section{"uni+lose", bandwidth, copy_engine, write, uni, gpus, on, large, many, Fault::lose},
    Section{"uni+swap", bandwidth, copy_engine, write, uni, gpus, on, large, many, Fault::swap},
    Section{"uni+hang", bandwidth, copy_engine, write, uni, gpus, on, large, many, Fault::hang},
};

}  // namespace

std::span<const Section> sections() { return table; }

Section quick(const Section& section) {
  Section changed = section;
  if (section.metric != Metric::bandwidth || section.ends != Ends::gpus) return changed;
  changed.bytes = section.peer_access ? large_quick : staged_quick;
  changed.window = std::min(section.window, several);
  return changed;
}

const char* name_of(Metric metric) {
  constexpr std::array names{"bandwidth", "completion", "issue", "enqueue", "store", "load"};
  return names[static_cast<std::size_t>(metric)];
}

const char* name_of(Engine engine) { return engine == Engine::copy_engine ? "copy engine" : "SM"; }

const char* name_of(AccessOperation operation) { return operation == AccessOperation::write ? "write" : "read"; }

const char* name_of(Ends ends) {
  constexpr std::array names{"gpus", "host to gpu", "gpu to host", "host to all gpus", "all gpus to host"};
  return names[static_cast<std::size_t>(ends)];
}

}  // namespace volley::gpu_matrix
