// Kernels that compute on the current device.
#pragma once

#include "benchmark/overlap/computation.hpp"
#include "gpu/streams.cuh"

namespace volley::overlap {

// The stream, on which the kernels are enqueued, stays the caller's.
[[nodiscard]] std::unique_ptr<Computation> make_device_computation(Limit limit, const gpu::Stream& cuda_stream);

}  // namespace volley::overlap
