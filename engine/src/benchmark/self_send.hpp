// The benchmark `self_send`: one rank sends to itself, which can be tried where nobody else can be started.
#pragma once

#include "benchmark/benchmark.hpp"

namespace volley {

[[nodiscard]] std::unique_ptr<Benchmark> make_self_send();

}  // namespace volley
