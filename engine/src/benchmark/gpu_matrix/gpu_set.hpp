// The GPUs of this machine and the links between them, all in one process, without MPI. Defined in .cu files of this
// folder in a build with CUDA, else in without_cuda.cpp.
#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmark/gpu_matrix/section.hpp"
#include "host/memory.hpp"
#include "measure/driver.hpp"

namespace volley::gpu_matrix {

// A link made no progress. Its operations are still running, and its memory must not be freed.
class HungError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One cell of a section: moves its messages when the timing loop calls it, and verifies them. The places of a view are
// those of the messages there; a message back has the same offsets in buffers of its own.
class GpuLink : public Driver, public Verifier {
 public:
  // What the verification found, as a sentence; empty if everything is correct.
  [[nodiscard]] virtual std::string complaint() const = 0;
  // Whether peer access is enabled between the two GPUs in both directions; always true within one GPU.
  [[nodiscard]] virtual bool peers() const = 0;
  // Of the messages there: where they are sent from and where they arrive.
  [[nodiscard]] virtual Buffers buffers() const = 0;
};

class GpuSet {
 public:
  virtual ~GpuSet() = default;

  // Whether kernels of the first GPU can access the second one's memory (cudaDeviceCanAccessPeer). GPUs are numbered in
  // the order of `make_gpu_set`.
  [[nodiscard]] virtual bool can_access(int first, int second) const = 0;

  // Enables peer access between all pairs that support it. GpuLink::peers() tells whether CUDA refused.
  virtual void give_access() = 0;

  // The longest message that the buffers have room for, in bytes.
  [[nodiscard]] virtual std::uint64_t capacity() const = 0;

  // The link of a cell. If one end is the host, `second` is ignored.
  [[nodiscard]] virtual std::unique_ptr<GpuLink> link(const Section& section, int first, int second, bool broken) = 0;

  // The error that makes CUDA unusable for the rest of this process; empty if there is none.
  [[nodiscard]] virtual std::string lost() = 0;

  // After a link hung: abandons its streams and buffers, and gives new ones to both GPUs.
  virtual void renew(int first, int second) = 0;
};

// The devices with these CUDA numbers, with buffers for messages of up to `bytes` bytes, or fewer if there is no room.
// Buffers are as long as `room_bytes` where they then take at most half of what is free.
// A link that makes no progress for `timeout` fails.
[[nodiscard]] std::unique_ptr<GpuSet> make_gpu_set(const std::vector<int>& devices, std::uint64_t bytes,
                                                   std::uint64_t room_bytes, std::chrono::duration<double> timeout);

}  // namespace volley::gpu_matrix
