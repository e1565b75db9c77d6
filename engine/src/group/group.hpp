// A group of endpoints: ranks, or GPUs of one process.
#pragma once

#include <cstddef>
#include <vector>

namespace volley {

struct Group {
  std::vector<int> ranks;    // world ranks, in order; of GPUs their numbers
  int self = 0;              // this process's place among them
  bool one_process = false;  // this process has all of them, and is its own peer

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  // The first leads, and times.
  [[nodiscard]] bool leads() const { return self == 0; }
  [[nodiscard]] int rank(int place) const { return ranks[static_cast<std::size_t>(place)]; }
  // The place of the other one, in a group of two.
  [[nodiscard]] int peer() const { return one_process ? self : 1 - self; }
};

}  // namespace volley
