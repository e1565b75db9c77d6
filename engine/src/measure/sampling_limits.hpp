// The limits of adaptive sampling, beside those of the plan.
#pragma once

namespace volley {

struct SamplingLimits {
  // The shortest sample: long enough that the extra time of the first exchange on rewritten buffers is negligible.
  double sample_s = 1e-3;
  // Empty batches; the empty sample is their median.
  int empty_samples = 31;
  // The target length of a visit: several samples of a short exchange, two of a long one.
  double visit_s = 5e-3;
  // Untimed exchanges after a fill; fewer if they take longer than two visits. A message that was just written is in
  // the caches of its writer; after about so many exchanges it is in the reader's caches, if they are large enough.
  int warm_up_exchanges = 8;
  // The time limit for estimating the length of a batch, and the minimum number of batches of a short exchange.
  double calibration_s = 20e-3;
  int calibration_batches = 5;
  // A longer exchange gets only as many samples as an interval of the median needs. Its buffers are far larger than any
  // cache, so that no untimed exchange warms a cache.
  double long_exchange_s = 50e-3;
};

}  // namespace volley
