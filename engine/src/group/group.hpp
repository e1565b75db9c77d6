// A group of endpoints: ranks, or GPUs of one process.
#pragma once

#include <cstddef>
#include <vector>

namespace volley {

struct Group {
  std::vector<int> ranks;    // world ranks, or numbers of GPUs
  int self = 0;              // the index of this process in `ranks`
  bool one_process = false;  // this process has all endpoints, and is its own peer

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  // The first endpoint leads, and times.
  [[nodiscard]] bool leads() const { return self == 0; }
  [[nodiscard]] int rank(int index) const { return ranks[static_cast<std::size_t>(index)]; }
  // The index of the other endpoint in a group of two.
  [[nodiscard]] int peer() const { return one_process ? self : 1 - self; }
};

}  // namespace volley
