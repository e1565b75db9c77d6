// The GPUs of this machine as one process has them, and the links between them: endpoints of one process, with no MPI
// between. The .cu files beside this one answer where the build has CUDA, without_cuda.cpp where it has not.
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

// A link that made no progress: what was asked of it is still under way, and what it uses must be left alone.
class HungError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One cell of a section: moves its messages when the timing loop says so, and verifies them. The view's places are
// the link's own affair, since they are in the memory of two devices.
class GpuLink : public Driver, public Verifier {
 public:
  // What the verification found, for people; empty while everything was right.
  [[nodiscard]] virtual std::string complaint() const = 0;
  // Whether peer access is on between the two, both ways; within one GPU always.
  [[nodiscard]] virtual bool peers() const = 0;
};

class GpuSet {
 public:
  virtual ~GpuSet() = default;

  // Whether the first's kernels can access the second's memory, as cudaDeviceCanAccessPeer says. Ends are numbered
  // in the order of `make_gpu_set`.
  [[nodiscard]] virtual bool can_access(int first, int second) const = 0;

  // Switches peer access on between all pairs that can; one that refuses stays as it is, and links say so.
  virtual void give_access() = 0;

  // Bytes of a message that the buffers hold.
  [[nodiscard]] virtual std::uint64_t capacity() const = 0;

  // The link of a cell. `second` is not looked at where one end is the host.
  [[nodiscard]] virtual std::unique_ptr<GpuLink> link(const Section& section, int first, int second, bool broken) = 0;

  // What makes CUDA useless for the rest of this process; empty while it works.
  [[nodiscard]] virtual std::string lost() = 0;

  // After a link hung: its streams are abandoned, and both ends get new ones.
  virtual void renew(int first, int second) = 0;
};

// The devices of CUDA's numbers, with buffers for messages of up to `bytes` bytes, or less where there is no room. A
// link that makes no progress for `timeout` is given up.
[[nodiscard]] std::unique_ptr<GpuSet> make_gpu_set(const std::vector<int>& devices, std::uint64_t bytes,
                                                   std::chrono::duration<double> timeout);

}  // namespace volley::gpu_matrix
