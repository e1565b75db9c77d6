// What is measured between each pair of ranks.
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

// One workload at one message size. Each transport has a matrix for each case.
struct MatrixCase {
  Workload workload;
  bool windows;  // round trips otherwise
  std::uint64_t bytes;
};

}  // namespace volley
