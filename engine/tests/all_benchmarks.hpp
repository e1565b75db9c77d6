// The benchmarks of both programs, for tests that read plans.
#pragma once

#include <vector>

#include "../src/benchmarks.hpp"

namespace volley::test {

inline const std::vector<BenchmarkEntry> benchmarks = [] {
  std::vector<BenchmarkEntry> all(rank_benchmarks.begin(), rank_benchmarks.end());
  all.insert(all.end(), local_benchmarks.begin(), local_benchmarks.end());
  return all;
}();

}  // namespace volley::test
