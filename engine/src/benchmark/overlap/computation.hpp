// What a rank computes while messages move: multiply-adds whose operands come from memory, or stay in registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "host/memory.hpp"

namespace volley::gpu {
class Stream;
}

namespace volley::overlap {

enum class Limit { memory, arithmetic };  // of the computation's speed

[[nodiscard]] inline const char* name_of(Limit limit) { return limit == Limit::memory ? "memory" : "arithmetic"; }

// Every result is a whole number that says how often it was computed, so that it can be checked exactly.
class Computation {
 public:
  virtual ~Computation() = default;
  // On the host it returns when so many steps are made; on a device it enqueues them.
  virtual void compute(std::uint64_t steps) = 0;
  // How the work of so many steps is wrong, of all since this object was made; empty if it is right.
  [[nodiscard]] virtual std::string wrong() = 0;
  // Bytes of the arrays that it goes through; 0 if it stays in registers.
  [[nodiscard]] virtual std::size_t working_set_bytes() const { return 0; }
};

// On one core.
[[nodiscard]] std::unique_ptr<Computation> make_host_computation(Limit limit);
// By kernels on the current device, enqueued on a stream that stays the caller's. Only in builds with CUDA.
[[nodiscard]] std::unique_ptr<Computation> make_device_computation(Limit limit, const gpu::Stream& cuda_stream);

}  // namespace volley::overlap
