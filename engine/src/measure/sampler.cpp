#include "measure/sampler.hpp"

#include <numeric>
#include <thread>
#include <utility>

#include "measure/fixed_work.hpp"

namespace volley {
namespace {

constexpr int max_samples_a_visit = 10;
// A point whose samples take less than this part of its time, because ranks wait for a core, ends as if they took it;
// where a sample cannot be lengthened, by its whole time.
constexpr double most_beside = 100;
// A long pass is made in calls of about so many messages: where ranks share cores, one message may take milliseconds.
constexpr std::uint64_t messages_a_call = 1024;

}  // namespace

// Fisher and Yates, 1938; Durstenfeld, 1964.
std::vector<std::size_t> order_of_round(std::size_t count, std::uint64_t round) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) {
    round = mixed(round + pattern_step);
    std::swap(order[i - 1], order[round % i]);
  }
  return order;
}

double clock_read_s() {
  std::vector<double> readings;
  for (int i = 0; i < 101; ++i) {
    readings.push_back(timed([](std::uint64_t) {}, 0));
  }
  return median(readings);
}

Sampler::Sampler(Control& control, const Sampling& sampling, const Workload& workload, Watchdog& watchdog)
    : Measuring{control, sampling, workload, watchdog},
      batches_(*this),
      forecast_(*this),
      calibration_(*this, batches_) {}

void Sampler::sample(std::vector<Series>& all, double left_s) {
  begun_ = Clock::now();
  left_s_ = left_s;
  forecast_.skip_slow(all);
  forecast_.skip_late(all, left_s);
  for (auto& series : all) {
    if (series.open()) begin(series);
  }
  while (std::ranges::any_of(all, &Series::open)) {
    for (const std::size_t i : order_of_round(all.size(), rounds_++)) {
      if (all[i].open()) visit(all[i]);
    }
    end_round(all);
  }
}

void Sampler::verify(std::vector<Series>& all) {
  // The long passes of a first size together take at most a quarter of what is left; where others use the cores, three
  // times as long.
  const SamplingLimits& limits = workload_.limits;
  const double part_s = control_.shared(left_s()) / 4 / static_cast<double>(all.size());
  const double first_s = std::clamp(part_s, limits.pass_s, limits.first_pass_s);
  for (auto& series : all) {
    if (!series.skipped.empty() || series.ended_by == EndedBy::failure) continue;
    check_every_message(series, forecast_.last(series) == nullptr ? first_s : limits.pass_s);
    if (series.view.bytes == 0 && series.verify && series.memory != MemoryKind::none) check_waiting(series);
  }
  for (const auto& series : all) forecast_.remember(series);
}

CheckedMessages Sampler::messages_of(const Series& series, const View& last) const {
  return {.verifier = series.verifier,
          .verify = series.verify,
          .send = last.first().send,
          .recv = last.recv,
          .bytes = last.bytes,
          .places_bytes = last.rotates() ? last.last_place * last.stride : 0,
          .before_bytes = last.place * last.stride,
          .sends = control_.sends(),
          .receives = control_.receives(),
          .arrive = series.takes_part && workload_.messages[static_cast<std::size_t>(control_.receives() % 2)] > 0};
}

void Sampler::begin(Series& series) {
  const auto begun = Clock::now();
  batches_.enter(series);
  series.skipped = control_.agreed_problem([&] {
    series.driver->prepare(series.view, workload_.window);
    if (series.stamps != nullptr) series.stamps->take();
  });
  if (!series.open()) return;
  fill(series);
  if (!sampling_.fixed) {
    if (series.fresh) {
      static_cast<void>(take(series, 1));
      series.cold_elapsed_s = seconds_since(begun);
    }
    calibration_.calibrate(series, forecast_.last(series));
  }
  series.elapsed_s += seconds_since(begun);
}

void Sampler::fill(Series& series) {
  const CheckedMessages messages = messages_of(series, series.view.first());
  batches_.expect_writing(messages.places_bytes + messages.bytes);
  series.messages->fill(messages);
}

// Every visit begins the same way, whichever series came before: with untimed exchanges of a message that was written
// long ago. They bring caches into their steady state.
void Sampler::visit(Series& series) {
  const auto begun = Clock::now();
  batches_.enter(series);
  if (control_.leads()) series.work_s.push_back(fixed_work_s());
  if (sampling_.fixed) {
    fixed_batch(series);
    calibration_.take_empty_samples(series);
    series.visits.push_back(1);
  } else {
    fill(series);
    const double most = batches_.is_long(series) ? 1 : 2 * workload_.limits.visit_s / series.count_s;
    warm_up(series, static_cast<std::uint64_t>(std::clamp<double>(most, 1, workload_.limits.warm_up_exchanges)));
    const int batches = batches_per_visit(series);
    const std::size_t samples_before = series.first_samples.size();
    for (int i = 0; i < batches; ++i) record(series, take(series, series.count), series.count);
    const std::size_t samples = series.first_samples.size() - samples_before;
    if (samples > 0) series.visits.push_back(samples);
  }
  series.driver->rest();
  series.elapsed_s += seconds_since(begun);
}

// At least two: in three visits of a single launch as many as an interval of the median needs.
int Sampler::batches_per_visit(const Series& series) const {
  if (batches_.is_long(series)) return min_samples_a_visit;
  const int most = sampling_.tail ? 10 * max_samples_a_visit : max_samples_a_visit;
  const double sample_s = series.count_s * static_cast<double>(series.count);
  return std::max(min_samples_a_visit, static_cast<int>(std::min<double>(most, workload_.limits.visit_s / sample_s)));
}

// Exchanges the first message of the fill without timing it; before it, from the places of last messages, what is made
// for them.
void Sampler::warm_up(Series& series, std::uint64_t exchanges) {
  if (exchanges == 0) return;
  control_.ready();
  for (std::uint64_t place = 1; series.restarts && place <= series.last_places(); ++place) {
    View last = series.view;
    last.last_offset = place * message_step_bytes;
    series.sampling_s += batches_.run_first(series, last, 1);
  }
  series.sampling_s += batches_.run_first(series, series.view, exchanges);
  series.messages->first_arrived();
}

// One sample: writes poison on the receive side, times the batch, and checks its last message, which differs from all
// others. In a long exchange the message that is there may stand for the poison, if it has one place. Returns the
// seconds of the batch.
double Sampler::take(Series& series, std::uint64_t count) {
  View view = series.view;
  const CheckedMessages messages = messages_of(series, view.message(batches_.moved(count) - 1));
  view.last_offset =
      series.messages->expect_next(messages, batches_.is_long(series) && !view.rotates(), series.last_places());
  control_.ready();
  const double elapsed_s = batches_.run_first(series, view, count);
  note(series, series.messages->check(messages));
  if (series.verified()) series.messages_verified += std::ranges::count_if(workload_.messages, std::identity{});
  return elapsed_s;
}

void Sampler::record(Series& series, double elapsed_s, std::uint64_t count) {
  const double counts = static_cast<double>(count) * workload_.divisor;
  const double value = elapsed_s / counts;
  series.sampling_s += elapsed_s;
  const std::uint64_t times = workload_.window ? 1 : series.sharers;  // threads that make round trips make all of them
  series.messages_timed += times * count * (workload_.messages[0] + workload_.messages[1]);
  if (!control_.leads()) {
    if (workload_.second_times) series.second_samples.push_back(value);
    return;
  }
  if (series.stamps != nullptr) {
    for (const double single_s : series.stamps->singles_s())
      series.first_samples.push_back(single_s / workload_.divisor);
    return;
  }
  series.first_samples.push_back(value);
  const Elapsed& elapsed = batches_.latest();
  if (elapsed.entry_skew_s) series.entry_skew_s.push_back(*elapsed.entry_skew_s);
  if (elapsed.mean_s) series.mean_samples.push_back(*elapsed.mean_s / counts);
  const std::vector<double> parts = series.driver->parts_s();
  series.parts.resize(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) series.parts[i].push_back(parts[i]);
}

// More calls of the timed function, in which every message has different contents and its own address, and is compared:
// one, or of short messages several, until those of the pass are made or three times `most_s` are over. In a sample
// each message overwrites the one before it, so that a lost message or window does not show.
void Sampler::check_every_message(Series& series, double most_s) {
  if (!series.verified() || series.buffer_bytes == 0) return;
  const auto pass_in = [&](double pass_s) {
    return pass_of(workload_, series.view.bytes, series.buffer_bytes, series.count_s, pass_s, series.sharers);
  };
  series.pass = pass_in(most_s);
  const std::uint64_t counts = std::exchange(series.pass.counts, 0);
  const std::uint64_t in_flight = series.pass.in_flight;
  if (counts == 0) return;
  const auto begun = Clock::now();
  batches_.enter(series);
  const View first = series.view.first();
  const View view{first.send, first.recv, first.bytes, 0, pass_stride(first.bytes)};
  const CheckedMessages messages = messages_of(series, view);
  const auto directions = static_cast<std::uint64_t>(std::ranges::count_if(workload_.messages, std::identity{}));
  const std::uint64_t most = std::max({workload_.pass_counts, series.sharers, messages_a_call / in_flight});
  std::optional<Window> window = workload_.window;
  if (window) window->messages = static_cast<int>(in_flight);
  bool goes_on = true;
  while (goes_on) {
    const std::uint64_t now = std::min(most, counts - series.pass.counts);
    batches_.expect_writing(now * in_flight * view.stride);
    // A persistent request has to send what is there when it starts, not what was there when it was made.
    if (series.restarts) series.driver->arm(view, now, window);
    series.messages->fill_pass(messages, now * in_flight, view.stride);
    control_.ready();
    watchdog_.progress(10 * series.count_s * static_cast<double>(now) + batches_.slowest_count_s(series));
    if (!series.restarts) series.driver->arm(view, now, window);
    series.driver->run(view, now, window);
    series.driver->disarm();
    batches_.expect_writing(now * in_flight * view.stride);
    note(series, series.messages->check_pass(messages, now * in_flight, view.stride));
    series.pass.counts += now;
    series.messages_verified += now * in_flight * directions;
    collect(series);
    goes_on = control_.shared(series.pass.counts < counts && !series.mismatch && seconds_since(begun) < 3 * most_s);
  }
  series.driver->rest();
  if (series.mismatch) series.ended_by = EndedBy::failure;
  const auto usual = static_cast<double>(pass_in(workload_.limits.pass_s).counts);
  series.long_pass_s = seconds_since(begun) * std::max(1 - usual / static_cast<double>(series.pass.counts), 0.0);
  series.elapsed_s += seconds_since(begun);
}

// Empty messages and barriers have no contents to compare. Each end in turn pauses after the first of its counts; the
// others make two in one call, which then takes at least as long by their own clocks. All make three counts, or two
// where a call makes one in place of two: nobody waits forever for an end that is wrong.
void Sampler::check_waiting(Series& series) {
  constexpr int least_trials = 8;  // in some an end that is wrong may be slow as well
  constexpr double shortest_pause_s = 2e-3, longest_pause_s = 0.1;
  const auto begun = Clock::now();
  batches_.enter(series);
  for (int trial = 0; trial < std::max(control_.ends(), least_trials) && !series.failed(); ++trial) {
    const auto make = [&](std::uint64_t count) { return seconds_of(series.driver->batch(series.view, count, {})); };
    const int late = trial % control_.ends();
    const bool is_late = control_.number() == late;
    watchdog_.progress();
    control_.ready();
    const double taken_s = make(is_late ? 1 : 2);
    double pause_s = std::clamp(4 * taken_s, shortest_pause_s, longest_pause_s);
    if (is_late) std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
    static_cast<void>(make(is_late ? 2 : 1));
    ++series.messages_verified;
    pause_s = control_.shared(pause_s, late);
    const int early = control_.first_of(!is_late && taken_s < pause_s / 2);
    if (early < 0) continue;
    series.ended_by = EndedBy::failure;
    series.did_not_wait = "rank " + std::to_string(control_.shared(control_.id(), early)) + " did not wait for rank " +
                          std::to_string(control_.shared(control_.id(), late));
  }
  series.driver->rest();
  series.elapsed_s += seconds_since(begun);
}

void Sampler::note(Series& series, std::optional<Mismatch> found) const {
  if (!found || series.mismatch) return;
  found->rank = control_.id();
  series.mismatch = found;
}

// At the end of a round: all ends report to the first, which decides which points end and sends the decision.
void Sampler::end_round(std::vector<Series>& all) {
  const double beside = workload_.max_counts == 1 ? 1 : most_beside;  // a sample is as short as what it measures
  for (auto& series : all) {
    if (!series.open()) continue;
    watchdog_.progress();
    collect(series);
    // If calibration was interrupted, the samples show that the exchange is shorter.
    for (const double sample_s : series.first_samples) {
      series.count_s = std::min(series.count_s, sample_s * workload_.divisor);
    }
    series.count_s = control_.shared(series.count_s);
    if (!series.mismatch && calibration_.lengthens(series)) {
      series.drop_samples();
      continue;
    }
    const Taken taken{.first_samples = series.first_samples,
                      .second_samples = series.second_samples,
                      .visits = static_cast<int>(series.work_s.size()),  // of those that are kept
                      .sampling_s = std::max(series.sampling_s, series.elapsed_s / beside),
                      .is_long = batches_.is_long(series),
                      .is_late = left_s() < 0,
                      .has_failed = series.mismatch.has_value()};
    series.ended_by = control_.shared(control_.leads() ? series.rule.ended(sampling_, taken) : EndedBy::open);
  }
}

void Sampler::collect(Series& series) {
  const int wrong = control_.first_of(series.mismatch.has_value());
  if (wrong >= 0) series.mismatch = control_.shared(series.mismatch.value_or(Mismatch{}), wrong);
  if (!workload_.second_times) return;
  const std::uint64_t samples = control_.shared(series.second_samples.size(), 1);
  if (control_.leads()) series.second_samples.resize(samples);
  control_.share(series.second_samples.data() + series.second_samples_sent,
                 (samples - series.second_samples_sent) * sizeof(double), 1);
  series.second_samples_sent = samples;
}

}  // namespace volley
