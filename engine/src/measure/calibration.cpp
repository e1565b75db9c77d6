#include "measure/calibration.hpp"

namespace volley {
namespace {

// Clock, call and what else a batch takes besides its exchanges (the empty sample) may be this share of a sample.
constexpr double overhead_share = 0.005;
// A short batch predicts a long one poorly: counts grow at most so many times at once.
constexpr std::uint64_t most_growth = 16;
// Samples are too short if they are this many times shorter than they should be.
constexpr std::uint64_t too_short = 8;

}  // namespace

void Calibration::calibrate(Series& series, const Forecast::Last* last) {
  take_empty_samples(series);
  if (last != nullptr && reuse(series, *last)) return;
  if (series.once_a_batch && !sampling_.tail) add_cost_of_batch(series);
  find_count(series);
}

void Calibration::take_empty_samples(Series& series) {
  std::vector<double> empty;
  for (int i = 0; i < workload_.limits.empty_samples; ++i) empty.push_back(batches_.run(series, series.view, 0));
  series.empty_s = median(empty);
}

// A batch of n exchanges takes c + n·x. An empty batch does not show c where it enqueues nothing and waits for nothing,
// so c = 2·t(1) - t(2). The shortest of several batches, so that an interruption does not count. Of a long exchange the
// difference is noise, and c is a small part of it anyway: at 0.5 % of a sample of `calibration_s` c is not looked for.
void Calibration::add_cost_of_batch(Series& series) {
  const double one_s = shortest_batch_s(series, 1);
  if (one_s >= workload_.limits.calibration_s) return;
  const double cost_s = 2 * one_s - shortest_batch_s(series, 2);
  const double most_s = overhead_share * workload_.limits.calibration_s;
  series.empty_s = std::max(*series.empty_s, std::min(cost_s, most_s));
}

// If one exchange of a smaller message was long enough for a sample, one exchange of this message is too, and its time
// grows with the size. If a sample of the same size between two other ends had the largest number of exchanges, this
// one has it too.
bool Calibration::reuse(Series& series, const Forecast::Last& last) const {
  if (sampling_.tail) return false;
  const bool one_is_enough =
      last.count == 1 && last.bytes <= series.view.bytes && last.count_s >= 2 * workload_.limits.sample_s;
  if (!one_is_enough && !(last.count == workload_.max_counts && last.bytes == series.view.bytes)) return false;
  series.count = last.count;
  series.count_s = last.count_s * static_cast<double>(series.view.bytes) / static_cast<double>(last.bytes);
  return true;
}

// Both ranks follow the first rank's clock. All that share the windows get as many.
void Calibration::find_count(Series& series) {
  struct Step {
    std::uint64_t count;
    double count_s;
    bool done;
  } step{series.sharers, 0, false};
  while (!step.done) {
    const double elapsed_s = shortest_batch_s(series, step.count);
    step.count_s = std::max(elapsed_s, 1e-9) / static_cast<double>(step.count);
    const std::uint64_t wanted = wanted_count(series, step.count_s);
    step.done = wanted <= 2 * step.count;
    step.count = step.done ? wanted : std::min(wanted, most_growth * step.count);
    step = control_.shared(step);
    series.count_s = step.count_s;
  }
  series.count = step.count;
}

std::uint64_t Calibration::wanted_count(const Series& series, double count_s) const {
  const bool stamped = series.stamps != nullptr;
  const double target_s =
      sampling_.tail && !stamped ? 0 : std::max(*series.empty_s / overhead_share, workload_.limits.sample_s);
  const std::uint64_t least = stamped ? Stamps::least_counts : 1;
  const std::uint64_t most = stamped ? Stamps::most_counts : workload_.max_counts;
  const double ideal = std::min(target_s / count_s, static_cast<double>(most));
  return round_up(std::max(least, static_cast<std::uint64_t>(std::ceil(ideal))), series.sharers);
}

// Where ranks wait for a core, every batch of the calibration may be interrupted, and one exchange looks long enough.
bool Calibration::lengthens(Series& series) {
  if (sampling_.fixed || sampling_.tail) return false;
  std::uint64_t wanted = series.count;
  if (control_.leads()) wanted = wanted_count(series, median(series.first_samples) * workload_.divisor);
  wanted = control_.shared(wanted);
  if (wanted < too_short * series.count) return false;
  series.count = std::min(wanted, most_growth * series.count);
  return true;
}

// The shortest of up to ten batches, so that an interruption does not look like a slow exchange. The same on all ends.
double Calibration::shortest_batch_s(Series& series, std::uint64_t count) {
  double shortest_s = std::numeric_limits<double>::infinity();
  double spent_s = 0;
  const SamplingLimits& limits = workload_.limits;
  const auto continues = [&](int repeat) {
    return repeat < 2 || (repeat < limits.calibration_batches && shortest_s < limits.long_exchange_s) ||
           (repeat < 10 && spent_s < limits.calibration_s);
  };
  for (int repeat = 0; continues(repeat); ++repeat) {
    control_.ready();
    const double elapsed_s = control_.shared(batches_.run(series, series.view, count));
    shortest_s = std::min(shortest_s, elapsed_s);
    spent_s += elapsed_s;
  }
  return shortest_s;
}

}  // namespace volley
