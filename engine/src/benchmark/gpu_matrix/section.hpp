// What is measured between the GPUs of a node: each section is one matrix. They are data; docs/method says what each
// number means.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "measure/driver.hpp"

namespace volley::gpu_matrix {

enum class Metric {
  bandwidth,   // seconds of a window of large messages, all of it complete
  completion,  // seconds from asking for one small copy until the host sees that it is complete
  issue,       // seconds from one to the next of many small copies that are enqueued already
  enqueue,     // seconds that the host needs to enqueue one
  store,       // half a round trip of 8 bytes that kernels store into each other's memory
  load         // seconds of one load by a kernel, each needing the one before
};

enum class Engine { copy_engine, sm };

// What the GPU of the row does: it writes to the memory of the column, or reads from it.
enum class Operation { write, read };

// Where one end of every pair is the host, there is no matrix but one row.
enum class Ends { gpus, host_to_gpu, gpu_to_host };

struct Section {
  const char* name;  // in plans and records
  Metric metric;
  Engine engine;
  Operation operation;
  Direction direction;
  Ends ends;
  bool peer_access;             // of all pairs that can, while this is measured
  std::uint64_t bytes;          // of a message, where the plan allows that many
  int window;                   // messages in flight before completion is awaited
  const char* fault = nullptr;  // a test: what is broken on purpose between the first and the last GPU
};

// All sections, in the order in which they are measured: peer access is off in the first ones and on in the rest.
[[nodiscard]] std::span<const Section> sections();

// The section of that name, or null.
[[nodiscard]] const Section* find_section(std::string_view name);

// The same, with windows that take less time where they are long.
[[nodiscard]] Section quick(const Section& section);

[[nodiscard]] const char* name_of(Metric metric);
[[nodiscard]] const char* name_of(Engine engine);
[[nodiscard]] const char* name_of(Operation operation);
[[nodiscard]] const char* name_of(Ends ends);

}  // namespace volley::gpu_matrix
