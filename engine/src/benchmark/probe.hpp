// The benchmark `probe`: which transports two ranks can use; measures nothing.
#pragma once

#include "benchmark/benchmark.hpp"

namespace volley {

[[nodiscard]] std::unique_ptr<Benchmark> make_probe();

}  // namespace volley
