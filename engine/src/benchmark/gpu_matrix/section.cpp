#include "benchmark/gpu_matrix/section.hpp"

#include <algorithm>
#include <array>

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
// So many lines that consecutive loads use different ones, and so few that they fit into the second-level cache of any
// GPU.
constexpr std::uint64_t chased = 16 << 10;

constexpr auto uni = Direction::uni;
constexpr auto bi = Direction::bi;
constexpr auto ce = Engine::copy_engine;
constexpr auto sm = Engine::sm;
constexpr auto writes = Operation::write;
constexpr auto reads = Operation::read;
constexpr auto gpus = Ends::gpus;
constexpr bool off = false;
constexpr bool on = true;

// name, metric, what moves the data, write or read, one or both, ends, peer access, bytes, window, fault
constexpr std::array table{
    Section{"host-to-gpu", Metric::bandwidth, ce, writes, uni, Ends::host_to_gpu, off, with_host, several},
    Section{"gpu-to-host", Metric::bandwidth, ce, writes, uni, Ends::gpu_to_host, off, with_host, several},
    Section{"uni/off", Metric::bandwidth, ce, writes, uni, gpus, off, staged, 1},
    Section{"bi/off", Metric::bandwidth, ce, writes, bi, gpus, off, staged, 1},
    Section{"completion/off", Metric::completion, ce, writes, uni, gpus, off, small, 1},
    Section{"issue/off", Metric::issue, ce, writes, uni, gpus, off, small, 1},
    Section{"enqueue/off", Metric::enqueue, ce, writes, uni, gpus, off, small, 1},
    Section{"uni", Metric::bandwidth, ce, writes, uni, gpus, on, large, many},
    Section{"uni/read", Metric::bandwidth, ce, reads, uni, gpus, on, large, many},
    Section{"bi", Metric::bandwidth, ce, writes, bi, gpus, on, large, many},
    Section{"uni/kernel", Metric::bandwidth, sm, writes, uni, gpus, on, large, many},
    Section{"uni/kernel-read", Metric::bandwidth, sm, reads, uni, gpus, on, large, many},
    Section{"bi/kernel", Metric::bandwidth, sm, writes, bi, gpus, on, large, many},
    Section{"completion", Metric::completion, ce, writes, uni, gpus, on, small, 1},
    Section{"issue", Metric::issue, ce, writes, uni, gpus, on, small, 1},
    Section{"enqueue", Metric::enqueue, ce, writes, uni, gpus, on, small, 1},
    Section{"store", Metric::store, sm, writes, uni, gpus, on, word, 1},
    Section{"load", Metric::load, sm, reads, uni, gpus, on, chased, 1},
    Section{"corrupt", Metric::bandwidth, ce, writes, uni, gpus, on, large, many, "corrupt"},
    Section{"hang", Metric::bandwidth, ce, writes, uni, gpus, on, large, many, "hang"},
};

}  // namespace

std::span<const Section> sections() { return table; }

const Section* find_section(std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& each) { return each.name == name; });
  return found == table.end() ? nullptr : &*found;
}

Section quick(const Section& section) {
  Section changed = section;
  if (section.metric != Metric::bandwidth || section.ends != Ends::gpus) return changed;
  changed.bytes = section.peer_access ? large_quick : staged_quick;
  changed.window = std::min(section.window, several);
  return changed;
}

const char* name_of(Metric metric) {
  switch (metric) {
    case Metric::bandwidth: return "bandwidth";
    case Metric::completion: return "completion";
    case Metric::issue: return "issue";
    case Metric::enqueue: return "enqueue";
    case Metric::store: return "store";
    case Metric::load: return "load";
  }
  return nullptr;
}

const char* name_of(Engine engine) { return engine == Engine::copy_engine ? "copy engine" : "SM"; }

const char* name_of(Operation operation) { return operation == Operation::write ? "write" : "read"; }

const char* name_of(Ends ends) {
  switch (ends) {
    case Ends::gpus: return "gpus";
    case Ends::host_to_gpu: return "host to gpu";
    case Ends::gpu_to_host: return "gpu to host";
  }
  return nullptr;
}

}  // namespace volley::gpu_matrix
