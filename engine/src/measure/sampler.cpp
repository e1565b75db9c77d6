#include "measure/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "measure/stopping.hpp"
#include "measure/timing_loop.hpp"

namespace volley {

namespace {

// Clock and call overhead (the empty sample) may be this share of a sample at most.
constexpr double overhead_share = 0.005;
constexpr int most_samples_a_visit = 10;
// A block of glibc's malloc begins this far behind a page boundary when it has pages of its own.
constexpr std::size_t malloc_header_bytes = 16;
// Percentiles (one exchange per sample) need at least this many samples for the 99th.
constexpr std::size_t tail_samples = 1000;

// The last of several messages differs from the others, so a batch that stops early is detected. A single message needs
// no such difference, because its receive buffer was poisoned.
View varied(View view, std::uint64_t count) {
  view.last_offset = count > 1 ? last_offset_bytes : 0;
  return view;
}

}  // namespace

double clock_read_s() {
  std::vector<double> readings;
  for (int i = 0; i < 101; ++i) {
    readings.push_back(timed([](std::uint64_t) {}, 0));
  }
  return median(readings);
}

void Sampler::measure(std::vector<Series>& all) {
  const auto is_open = [](const Series& series) { return series.open(); };
  latest_ = nullptr;
  for (auto& series : all) {
    if (series.open()) begin(series);
  }
  for (int round = 0; std::any_of(all.begin(), all.end(), is_open); ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      // Each round starts with another transport: a drift of the machine affects all of them.
      Series& series = all[(i + static_cast<std::size_t>(round)) % all.size()];
      if (series.open()) visit(series);
    }
    end_round(all, round + 1);
  }
  for (const auto& series : all) {
    if (series.count > 0) last_[series.name] = {series.view.bytes, series.count, series.count_s};
  }
}

void Sampler::begin(Series& series) {
  const auto begun = Clock::now();
  watch(series);
  series.driver->prepare(series.view);
  std::vector<double> empty;
  for (int i = 0; i < workload_.limits.empty_samples; ++i) empty.push_back(batch(series, series.view, 0));
  series.empty_s = median(empty);
  if (!sampling_.fixed) {
    if (series.fresh) series.cold_s = sample(series, 0, 1) / workload_.divisor;
    if (!known_already(series)) calibrate(series);
  }
  series.elapsed_s += seconds_since(begun);
}

// Where one exchange of a smaller message makes a sample, one of this makes one too, and takes as much longer. Where
// the most that a sample may hold were held by one of the same message (between two others), they are again.
bool Sampler::known_already(Series& series) {
  const auto found = last_.find(series.name);
  if (found == last_.end() || sampling_.tail) return false;
  const auto& [bytes, count, count_s] = found->second;
  const bool lasts = count == 1 && bytes <= series.view.bytes && count_s >= 2 * workload_.limits.sample_s;
  if (!lasts && !(count == workload_.most_counts && bytes == series.view.bytes)) return false;
  series.count = count;
  series.count_s = count_s * static_cast<double>(series.view.bytes) / static_cast<double>(bytes);
  return true;
}

// Finds how many counts make a sample. Both ranks follow the first rank's clock.
void Sampler::calibrate(Series& series) {
  const double target_s = sampling_.tail ? 0 : std::max(*series.empty_s / overhead_share, workload_.limits.sample_s);

  struct Step {
    std::uint64_t count;
    double count_s;
    bool done;
  } step{1, 0, false};
  while (!step.done) {
    const double elapsed_s = shortest_batch_s(series, step.count);
    step.count_s = std::max(elapsed_s, 1e-9) / static_cast<double>(step.count);
    const double ideal = std::min(target_s / step.count_s, static_cast<double>(workload_.most_counts));
    const auto wanted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(ideal)));
    // A short batch predicts a long one poorly: grow at most sixteenfold at a time.
    step.done = wanted <= 2 * step.count;
    step.count = step.done ? wanted : std::min(wanted, 16 * step.count);
    step = control_.shared(step);
  }
  series.count = step.count;
  series.count_s = step.count_s;
}

// An interruption must not look like a slow exchange: take the shortest of up to ten batches, fewer if they are long.
double Sampler::shortest_batch_s(Series& series, std::uint64_t count) {
  double shortest_s = std::numeric_limits<double>::infinity();
  double spent_s = 0;
  const SamplingLimits& limits = workload_.limits;
  const auto goes_on = [&](int repeat) {
    if (shortest_s > 2 * limits.lasting_exchange_s) return repeat < 1;  // nothing interrupts for so long
    return repeat < 2 || (repeat < limits.calibration_batches && shortest_s < limits.lasting_exchange_s) ||
           (repeat < 10 && spent_s < limits.calibration_s);
  };
  for (int repeat = 0; goes_on(repeat); ++repeat) {
    control_.ready();
    const double elapsed_s = control_.shared(batch(series, series.view, count));
    shortest_s = std::min(shortest_s, elapsed_s);
    spent_s += elapsed_s;
  }
  return shortest_s;
}

bool Sampler::lasting(const Series& series) const { return series.count_s > workload_.limits.lasting_exchange_s; }

// Samples of one visit. However few the visits, an interval of the median must exist after the last of them.
int Sampler::burst(const Series& series) const {
  const int visits = sampling_.min_visits;
  const int fewest = (static_cast<int>(fewest_samples) + visits - 1) / visits;
  if (lasting(series)) return fewest;
  const int most = sampling_.tail ? 10 * most_samples_a_visit : most_samples_a_visit;
  const double sample_s = series.count_s * static_cast<double>(series.count);
  return std::max(fewest, static_cast<int>(std::min<double>(most, workload_.limits.visit_s / sample_s)));
}

// Other transports were visited since this one began.
void Sampler::watch(const Series& series) {
  watchdog_.enter("transport " + series.name + ", pair " + std::to_string(control_.ids()[0]) + "-" +
                  std::to_string(control_.ids()[1]) + ", " + std::to_string(series.view.bytes) + " B, " +
                  workload_.name);
}

void Sampler::visit(Series& series) {
  const auto begun = Clock::now();
  watch(series);
  if (sampling_.fixed) {
    fixed_batch(series);
    series.visits.push_back(1);
  } else {
    const int samples = burst(series);
    for (int i = 0; i < samples; ++i) {
      const bool follows = lasting(series) && latest_ == &series && series.repetition > 0;
      record(series, follows ? next_sample(series) : sample(series, 1, series.count), series.count);
    }
    series.visits.push_back(static_cast<std::uint64_t>(samples));
  }
  series.elapsed_s += seconds_since(begun);
}

// The tutorial's measurement: `warmup` exchanges, then one clock pair around `iterations`, one buffer both ways.
// With one buffer, the answer equals the sent message and does not prove that the way back moved data: one more
// exchange between separate buffers, outside the timing, proves it.
void Sampler::fixed_batch(Series& series) {
  const std::uint64_t iterations = sampling_.iterations;
  std::uint64_t warmup = sampling_.warmup;
  series.count = iterations;
  if (!workload_.one_buffer) {
    record(series, sample(series, warmup, iterations), iterations);
    return;
  }
  // malloc, from which the tutorial's buffer comes, puts its header in front of a block.
  std::byte* const place = series.view.send + (series.memory == MemoryKind::host ? malloc_header_bytes : 0);
  const View one{place, place, series.view.bytes};
  if (series.fresh && warmup > 0) {
    control_.ready();
    series.cold_s = batch(series, one, 1) / workload_.divisor;
    --warmup;
  }
  control_.ready();
  const double warm_s = batch(series, one, warmup) / static_cast<double>(std::max<std::uint64_t>(warmup, 1));
  series.count_s = std::max(warm_s, workload_.divisor * series.cold_s.value_or(0));

  ++series.repetition;
  const std::uint64_t sent = seed(series, 0);
  if (series.verifier != nullptr) {
    series.verifier->poison(one.recv, one.bytes, sent);
    if (control_.leads()) series.verifier->fill(one.send, one.bytes, sent);
  }
  control_.ready();
  record(series, batch(series, one, iterations), iterations);
  if (series.verifier == nullptr) return;
  check_message(series, one.recv, sent);
  series.messages_verified += 1;
  sample(series, 0, 1);
}

// One sample: fresh contents, untimed exchanges that bring caches into the state of the steady exchange, poison on
// the receive side, the timed batch, and the check of its last message. Returns the seconds of the batch.
double Sampler::sample(Series& series, std::uint64_t untimed, std::uint64_t count) {
  ++series.repetition;
  write_contents(series);
  const View view = varied(series.view, count);
  if (untimed > 0) {
    control_.ready();
    batch(series, view, untimed);
  }
  write_poison(series, view);
  control_.ready();
  const double elapsed_s = batch(series, view, count);
  check_contents(series, view);
  return elapsed_s;
}

// One more sample right behind the last one of the same series, of an exchange whose buffers are far larger than what a
// cache would keep: no untimed exchange, and the message before, wrong in every byte, stands for the poison.
double Sampler::next_sample(Series& series) {
  const std::uint64_t before = seed(series, control_.peer());
  ++series.repetition;
  write_contents(series);
  const View view = varied(series.view, series.count);
  if (!differ_in_every_byte(before, seed(series, control_.peer())) || series.count > 1) write_poison(series, view);
  control_.ready();
  const double elapsed_s = batch(series, view, series.count);
  check_contents(series, view);
  return elapsed_s;
}

double Sampler::batch(Series& series, const View& view, std::uint64_t count) {
  watchdog_.progress(10 * series.count_s * static_cast<double>(count));
  latest_ = &series;
  series.driver->arm(view, count);
  const double elapsed_s = timed([&](std::uint64_t n) { workload_.run(*series.driver, view, n); }, count);
  series.driver->disarm();
  return elapsed_s;
}

void Sampler::record(Series& series, double elapsed_s, std::uint64_t count) {
  const double value = elapsed_s / static_cast<double>(count) / workload_.divisor;
  if (control_.leads()) series.rank0_samples.push_back(value);
  else if (workload_.second_times) series.rank1_samples.push_back(value);
  series.messages_timed += count * (workload_.messages[0] + workload_.messages[1]);
}

std::uint64_t Sampler::seed(const Series& series, int direction) const {
  return seed_of({series.view.bytes, static_cast<std::uint64_t>(direction), series.repetition});
}

void Sampler::write_contents(Series& series) {
  if (series.verifier == nullptr) return;
  series.verifier->fill(series.view.send, series.view.bytes + last_offset_bytes, seed(series, control_.self()));
}

Contents Sampler::expected(const Series& series, const View& view) const {
  return {seed(series, control_.peer()), view.last_offset == 0 ? 0 : last_first_word};
}

void Sampler::write_poison(Series& series, const View& view) {
  if (series.verifier == nullptr || !receives()) return;
  series.verifier->poison(view.recv, view.bytes, expected(series, view));
}

void Sampler::check_contents(Series& series, const View& view) {
  if (series.verifier == nullptr) return;
  for (const auto moved : workload_.messages) series.messages_verified += moved > 0 ? 1 : 0;
  if (!receives()) return;
  check_message(series, view.recv, expected(series, view));
}

void Sampler::check_message(Series& series, const std::byte* message, const Contents& expected) {
  auto found = series.verifier->check(message, series.view.bytes, expected);
  if (!found || series.mismatch) return;
  found->rank = control_.ids()[static_cast<std::size_t>(control_.self())];
  series.mismatch = found;
}

// At the end of a round: the second rank reports to the first, which decides which points end and sends the decision.
void Sampler::end_round(std::vector<Series>& all, int rounds) {
  for (auto& series : all) {
    if (!series.open()) continue;
    watchdog_.progress();
    collect_from_second(series);
    series.ended_by = control_.shared(control_.leads() ? judged(series, rounds) : EndedBy::open);
  }
}

void Sampler::collect_from_second(Series& series) {
  struct SecondFindings {
    std::uint64_t samples;
    bool wrong;
    Mismatch mismatch;
  } found{series.rank1_samples.size(), series.mismatch.has_value(), series.mismatch.value_or(Mismatch{})};
  found = control_.shared(found, 1);
  if (found.wrong && !series.mismatch) series.mismatch = found.mismatch;
  if (control_.leads()) series.rank1_samples.resize(found.samples);
  control_.share(series.rank1_samples.data() + series.rank1_samples_sent,
                 (found.samples - series.rank1_samples_sent) * sizeof(double), 1);
  series.rank1_samples_sent = found.samples;
}

EndedBy Sampler::judged(Series& series, int rounds) const {
  if (series.mismatch) return EndedBy::failure;
  if (sampling_.fixed) return EndedBy::fixed;
  if (rounds < sampling_.min_visits) return EndedBy::open;
  const auto within = [&](const std::vector<double>& times) { return interval_within(times, sampling_.ci); };
  const auto both_within = [&] {
    return within(series.rank0_samples) && (series.rank1_samples.empty() || within(series.rank1_samples));
  };
  if (lasting(series)) return both_within() ? EndedBy::ci : EndedBy::few;
  const std::size_t enough = sampling_.tail ? tail_samples : fewest_samples;
  if (series.rank0_samples.size() >= std::max(series.next_look, enough)) {
    if (both_within()) return EndedBy::ci;
    series.next_look = series.rank0_samples.size() + series.rank0_samples.size() / 10;
  }
  return series.elapsed_s >= sampling_.point_time_s ? EndedBy::time : EndedBy::open;
}

}  // namespace volley
