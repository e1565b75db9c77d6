// What is measured of each pair of a rank matrix.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "measure/workload.hpp"

namespace volley {

// The part of the plan.
struct RankMatrixOptions {
  bool loaded = false;                               // all ranks at once, in a round robin
  std::vector<std::uint64_t> latency_sizes_bytes;    // of round trips
  std::vector<std::uint64_t> bandwidth_sizes_bytes;  // of windows
  Window window;
  std::vector<std::array<int, 2>> pairs;  // empty: all
  int repeats = 1;
  bool samples = false;  // cells keep every sample
};

// One workload at one message size: a matrix of its own for each transport.
struct MatrixCase {
  Workload workload;
  bool windows;  // round trips otherwise
  std::uint64_t bytes;
};

}  // namespace volley
