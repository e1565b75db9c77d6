// What a collective needs of a transport: one file for each, and a line in transports.cpp.
#pragma once

#include <vector>

#include "benchmark/collective/operation.hpp"
#include "transport/registry.hpp"

namespace volley {

// Carries collectives among the ranks of a group; all of them make every call. A new one overrides what Transport
// leaves open, and the two functions below.
class CollectiveTransport : public Transport {
 public:
  // Prepares for `perform` of this collective with this view, whose `bytes` are those of the larger buffer.
  virtual void prepare_for(const Collective& collective, const View& view) = 0;

  // `count` operations back to back. What is timed: returns when this rank's result is usable. Operation i takes
  // view.message(i), the last one view.last().message(i).
  virtual void perform(const Collective& collective, const View& view, std::uint64_t count) = 0;

 protected:
  // Calls operation(view) for each of `count`, as `perform` must.
  template <class Perform>
  static void for_each_operation(const View& view, std::uint64_t count, Perform operation) {
    const View last = view.last();
    for (std::uint64_t i = 1; i <= count; ++i) operation((i < count ? view : last).message(i - 1));
  }
};

// Like find_transport(): those that carry no collectives are unavailable, and say so. A fault is the driver's.
[[nodiscard]] const TransportEntry* find_collective_transport(std::string_view name);

}  // namespace volley
