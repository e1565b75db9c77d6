// Takes samples: rounds over the series of one message size, verification, the decision when to stop.
#pragma once

#include <limits>

#include "measure/control.hpp"
#include "measure/series.hpp"
#include "measure/watchdog.hpp"
#include "record/plan.hpp"

namespace volley {

// The time of two clock readings in seconds: an empty timed batch.
[[nodiscard]] double clock_read_s();

class Sampler {
 public:
  Sampler(Control& control, const Sampling& sampling, const Workload& workload, Watchdog& watchdog);
  ~Sampler();

  // Measures every open series, all of the same message size, interleaved, in `left_s` seconds, which are the same on
  // all ends: a series that is expected to take more than its part of them is skipped. Collective over the ends; their
  // results are complete on the first.
  void measure(std::vector<Series>& all, double left_s = std::numeric_limits<double>::infinity());

 private:
  class Rounds;
  std::unique_ptr<Rounds> rounds_;
};

}  // namespace volley
