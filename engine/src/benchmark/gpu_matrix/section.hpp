// What is measured between the GPUs of a node: each section is one matrix. docs/method explains each number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/errors.hpp"
#include "measure/timing_loop.hpp"

namespace volley {
struct Run;
enum class Fault;
}  // namespace volley

namespace volley::gpu_matrix {

enum class Metric {
  bandwidth,   // seconds of a window of large messages, all of it complete
  completion,  // seconds from the call of one small copy until the host sees that it is complete
  issue,       // seconds from one small copy to the next, when many are enqueued already
  enqueue,     // seconds that the host needs to enqueue one
  store,       // half a round trip of 8 bytes that kernels store into each other's memory
  load         // seconds of one load by a kernel; each load waits for the one before
};

enum class Engine { copy_engine, sm };

// The GPU of the row writes to the memory of the column's GPU, or reads from it.
enum class AccessOperation { write, read };

// If one end of every pair is the host, there is one row instead of a matrix. With `all`, the other GPUs copy at the
// same time.
enum class Ends { gpus, host_to_gpu, gpu_to_host, host_to_all_gpus, all_gpus_to_host };

[[nodiscard]] constexpr bool uses_all(Ends ends) {
  return ends == Ends::host_to_all_gpus || ends == Ends::all_gpus_to_host;
}

struct Section {
  const char* name;  // in plans and records
  Metric metric;
  Engine engine;
  AccessOperation operation;
  Direction direction;
  Ends ends;
  bool peer_access;     // enabled for all pairs that support it
  std::uint64_t bytes;  // of a message, if the plan allows that many
  int window;           // messages in flight before completion is awaited
  Fault fault{};        // a test: what breaks on purpose between the first and the last GPU
};

// All sections in the order in which they are measured: first those without peer access, then those with it.
[[nodiscard]] std::span<const Section> sections();

// The section of the quick mode: its windows take less time.
[[nodiscard]] Section quick(const Section& section);

[[nodiscard]] const char* name_of(Metric metric);
[[nodiscard]] const char* name_of(Engine engine);
[[nodiscard]] const char* name_of(AccessOperation operation);
[[nodiscard]] const char* name_of(Ends ends);

struct GpuMatrixOptions {
  std::vector<std::string> sections;
  std::vector<int> gpus;                                   // CUDA's numbers; empty: all
  std::uint64_t largest_bytes = std::uint64_t{512} << 20;  // of a message of any section
  bool quick = false;                                      // less data, fewer samples
  bool samples = false;                                    // cells keep every sample
};

[[nodiscard]] Exit measure(const Run& run, const GpuMatrixOptions& options);

}  // namespace volley::gpu_matrix
