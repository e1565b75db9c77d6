// The benchmark `pingpong`: a message there and back; latency is the half round trip.
#pragma once

#include "benchmark/benchmark.hpp"

namespace volley {

[[nodiscard]] std::unique_ptr<Benchmark> make_pingpong();

}  // namespace volley
