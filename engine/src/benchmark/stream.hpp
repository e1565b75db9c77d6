// The benchmark `stream`: windows of messages, one way or both; bandwidth.
#pragma once

#include "benchmark/benchmark.hpp"

namespace volley {

[[nodiscard]] std::unique_ptr<Benchmark> make_stream();

}  // namespace volley
