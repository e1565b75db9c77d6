// Kernels that compute on the current device.
#pragma once

#include "benchmark/overlap/computation.hpp"
#include "gpu/gpu.hpp"

namespace volley::overlap {

class DeviceComputation : public Computation {
 public:
  // Enqueues so many steps.
  virtual void compute(std::uint64_t steps, gpu::StreamHandle cuda_stream) = 0;
};

[[nodiscard]] std::unique_ptr<DeviceComputation> make_device_computation(Limit limit);

}  // namespace volley::overlap
