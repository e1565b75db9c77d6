#include <cmath>
#include <iomanip>

#include "measure/sampler.hpp"

namespace volley {
namespace {

// Clock and call overhead (the empty sample) may be at most this share of a sample.
constexpr double overhead_share = 0.005;
constexpr int min_samples_a_visit = 2;
// From about this size on, bandwidth dominates the time of a message; below, latency does.
constexpr std::size_t bandwidth_bytes = std::size_t{64} << 10;
constexpr int max_samples_a_visit = 10;
// A large block of glibc's malloc begins this many bytes after a page boundary.
constexpr std::size_t malloc_header_bytes = 16;
// Percentiles (one exchange per sample) need at least this many samples for the 99th.
constexpr std::size_t tail_samples = 1000;

// Seconds of a fixed piece of work, which show how fast the CPU is at present: the clock frequency, and other work on
// the core. Some microseconds of integer arithmetic in registers, the same in every call. Caches stay as they are.
double fixed_work_s() {
  constexpr std::uint64_t passes = 6000;
  return timed(
      [](std::uint64_t count) {
        // Four independent chains keep the multiplier busy: work on the core's other hardware thread then shows, too.
        // The empty asm statements are a barrier for the optimiser only.
        std::uint64_t a = 1, b = 2, c = 3, d = 4;
        for (std::uint64_t i = 0; i < count; ++i) {
          a = a * 0xBF58476D1CE4E5B9ULL + i;
          b = b * 0xBF58476D1CE4E5B9ULL + i;
          c = c * 0xBF58476D1CE4E5B9ULL + i;
          d = d * 0xBF58476D1CE4E5B9ULL + i;
          asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
        }
      },
      passes);
}

}  // namespace

double clock_read_s() {
  std::vector<double> readings;
  for (int i = 0; i < 101; ++i) {
    readings.push_back(timed([](std::uint64_t) {}, 0));
  }
  return median(readings);
}

// What a Sampler does, and what it remembers from one message size to the next.
class Sampler::Rounds {
 public:
  Rounds(Control& control, const Sampling& sampling, const Workload& workload, Watchdog& watchdog)
      : control_(control), sampling_(sampling), workload_(workload), watchdog_(watchdog) {}

  void measure(std::vector<Series>& all, double left_s) {
    const auto is_open = [](const Series& series) { return series.open(); };
    latest_ = nullptr;
    skip_slow(all);
    skip_late(all, left_s);
    for (auto& series : all) {
      if (series.open()) begin(series);
    }
    for (int round = 0; std::any_of(all.begin(), all.end(), is_open); ++round) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        // Each round starts with a different transport, so that a drift of the machine affects all equally.
        Series& series = all[(i + static_cast<std::size_t>(round)) % all.size()];
        if (series.open()) visit(series);
      }
      end_round(all, round + 1);
    }
    for (auto& series : all) {
      if (series.skipped.empty() && series.ended_by != EndedBy::failure) check_every_message(series);
    }
    for (const auto& series : all) {  // an empty message says nothing of longer ones
      if (series.count > 0 && series.view.bytes > 0)
        last_[series.name] = {series.view.bytes, series.count, series.count_s, series.elapsed_s - series.cold_elapsed_s,
                              series.cold_elapsed_s};
    }
  }

 private:
  // Skips every series whose fewest exchanges exceed its part of the plan's time for a message size, judged
  // by the last size of the series. Only a long exchange tells: its time grows with the size.
  void skip_slow(std::vector<Series>& all) {
    if (!sampling_.size_time_s) return;
    const auto open = std::count_if(all.begin(), all.end(), [](const Series& series) { return series.open(); });
    const double part_s = *sampling_.size_time_s / static_cast<double>(std::max<std::ptrdiff_t>(open, 1));
    for (auto& series : all) {
      const auto found = last_.find(series.name);
      if (!series.open() || found == last_.end()) continue;
      const auto& [bytes, count, count_s, elapsed_s, cold_s] = found->second;
      const double exchange_s = count_s * static_cast<double>(series.view.bytes) / static_cast<double>(bytes);
      const double expected_s = exchange_s * static_cast<double>(min_exchanges());
      if (count_s <= workload_.limits.long_exchange_s || expected_s <= part_s) continue;
      std::ostringstream reason;
      reason << std::setprecision(2) << min_exchanges() << " " << workload_.name << " exceed the limit of " << part_s
             << " s for each transport (" << *sampling_.size_time_s << " s for this size)";
      series.skipped = reason.str();
    }
  }

  // Skips every series for which the plan's time budget has no time left, as the first end expects.
  void skip_late(std::vector<Series>& all, double left_s) {
    if (std::isinf(left_s)) return;
    const auto open = std::count_if(all.begin(), all.end(), [](const Series& series) { return series.open(); });
    for (auto& series : all) {
      if (!series.open()) continue;
      if (control_.shared(expected_s(series) * static_cast<double>(open) >= left_s)) series.skipped = budget_reason;
    }
  }

  // What a series takes in all, by its last size: a longer message adds its fewest exchanges, and about as much time
  // for its contents and the pass. The time of a short message is latency, which does not grow. 0 if nothing is known
  // of it.
  double expected_s(const Series& series) const {
    const auto found = last_.find(series.name);
    if (found == last_.end() || found->second.bytes == 0) return 0;
    const auto& [bytes, count, count_s, elapsed_s, cold_s] = found->second;
    const double once_s = series.fresh ? cold_s : 0;
    const double ratio = static_cast<double>(series.view.bytes) / static_cast<double>(bytes);
    if (ratio < 1) return once_s + elapsed_s * ratio + (sampling_.fixed ? 0 : sampling_.point_time_s);
    const double growth = bytes >= bandwidth_bytes ? ratio - 1 : 0;
    return once_s + elapsed_s + 2 * count_s * static_cast<double>(min_exchanges()) * growth;
  }

  // How many exchanges a point with long ones has: in each visit two samples, and one untimed before them.
  std::uint64_t min_exchanges() const {
    if (sampling_.fixed) return sampling_.warmup + sampling_.iterations;
    return static_cast<std::uint64_t>(sampling_.min_visits) * (min_samples_a_visit + 1);
  }

  void begin(Series& series) {
    const auto begun = Clock::now();
    tell_watchdog(series);
    series.skipped = control_.agreed_problem([&] { series.driver->prepare(series.view, workload_.window); });
    if (!series.open()) return;
    if (!series.verified()) fill(series);
    if (!sampling_.fixed) {
      if (series.fresh) {
        fill_send_buffer(series);
        static_cast<void>(sample(series, 1));
        series.cold_elapsed_s = seconds_since(begun);
      }
      take_empty_samples(series);
      if (!reuse_calibration(series)) {
        if (!series.fresh) fill_send_buffer(series);
        calibrate(series);
      }
    }
    series.elapsed_s += seconds_since(begun);
  }

  // Not before the first exchange, which is the cold one: an empty batch of one-sided MPI communicates.
  void take_empty_samples(Series& series) {
    std::vector<double> empty;
    for (int i = 0; i < workload_.limits.empty_samples; ++i) empty.push_back(batch(series, series.view, 0));
    series.empty_s = median(empty);
  }

  // Derives the calibration from that of the last message size, if possible. If one exchange of a smaller message was
  // long enough for a sample, one exchange of this message is too, and its time grows with the size. If a sample of the
  // same size between two other ends had the largest number of exchanges, this one has it too.
  bool reuse_calibration(Series& series) {
    const auto found = last_.find(series.name);
    if (found == last_.end() || sampling_.tail) return false;
    const auto& [bytes, count, count_s, elapsed_s, cold_s] = found->second;
    const bool one_is_enough = count == 1 && bytes <= series.view.bytes && count_s >= 2 * workload_.limits.sample_s;
    if (!one_is_enough && !(count == workload_.max_counts && bytes == series.view.bytes)) return false;
    series.count = count;
    series.count_s = count_s * static_cast<double>(series.view.bytes) / static_cast<double>(bytes);
    return true;
  }

  // Finds how many counts make a sample. Both ranks follow the first rank's clock.
  void calibrate(Series& series) {
    const double target_s = sampling_.tail ? 0 : std::max(*series.empty_s / overhead_share, workload_.limits.sample_s);

    struct Step {
      std::uint64_t count;
      double count_s;
      bool done;
    } step{1, 0, false};
    while (!step.done) {
      const double elapsed_s = shortest_batch_s(series, step.count);
      step.count_s = std::max(elapsed_s, 1e-9) / static_cast<double>(step.count);
      const double ideal = std::min(target_s / step.count_s, static_cast<double>(workload_.max_counts));
      const auto wanted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(ideal)));
      // A short batch predicts a long one poorly: grow at most sixteenfold at a time.
      step.done = wanted <= 2 * step.count;
      step.count = step.done ? wanted : std::min(wanted, 16 * step.count);
      step = control_.shared(step);
      series.count_s = step.count_s;
    }
    series.count = step.count;
  }

  // The shortest of up to ten batches, so that an interruption does not look like a slow exchange.
  double shortest_batch_s(Series& series, std::uint64_t count) {
    double shortest_s = std::numeric_limits<double>::infinity();
    double spent_s = 0;
    const SamplingLimits& limits = workload_.limits;
    const auto continues = [&](int repeat) {
      return repeat < 2 || (repeat < limits.calibration_batches && shortest_s < limits.long_exchange_s) ||
             (repeat < 10 && spent_s < limits.calibration_s);
    };
    for (int repeat = 0; continues(repeat); ++repeat) {
      control_.ready();
      const double elapsed_s = control_.shared(batch(series, series.view, count));
      shortest_s = std::min(shortest_s, elapsed_s);
      spent_s += elapsed_s;
    }
    return shortest_s;
  }

  // The longest that one count can take before any was timed.
  double slowest_count_s(const Series& series) const {
    const auto messages = static_cast<double>(workload_.messages[0] + workload_.messages[1]);
    return messages * static_cast<double>(series.view.bytes) / slowest_bytes_per_s;
  }

  bool is_long(const Series& series) const { return series.count_s > workload_.limits.long_exchange_s; }

  // Samples of one visit: in three visits as many as an interval of the median needs.
  int samples_per_visit(const Series& series) const {
    if (is_long(series)) return min_samples_a_visit;
    const int most = sampling_.tail ? 10 * max_samples_a_visit : max_samples_a_visit;
    const double sample_s = series.count_s * static_cast<double>(series.count);
    return std::max(min_samples_a_visit, static_cast<int>(std::min<double>(most, workload_.limits.visit_s / sample_s)));
  }

  std::uint64_t warm_up_exchanges(const Series& series) const {
    const double most = 2 * workload_.limits.visit_s / series.count_s;
    return static_cast<std::uint64_t>(std::clamp<double>(most, 1, workload_.limits.warm_up_exchanges));
  }

  void tell_watchdog(const Series& series) {
    watchdog_.enter("transport " + series.name + ", " + control_.name() + ", " + std::to_string(series.view.bytes) +
                    " B, " + workload_.name);
    expect_writing(series);
  }

  // Tells the watchdog that messages are written next, to pages that may be touched first: what is sent, and poison.
  void expect_writing(const Series& series) {
    watchdog_.progress(2 * static_cast<double>(series.view.bytes) / slowest_bytes_per_s);
  }

  void visit(Series& series) {
    const auto begun = Clock::now();
    tell_watchdog(series);
    if (control_.leads()) series.work_s.push_back(fixed_work_s());
    if (sampling_.fixed) {
      fixed_batch(series);
      take_empty_samples(series);
      series.visits.push_back(1);
    } else {
      const int samples = samples_per_visit(series);
      const bool filled = latest_ == &series && series.repetition > 0;
      for (int i = 0; i < samples; ++i) {
        const bool fill = (i == 0 && !filled) || series.message == last_messages_per_fill;
        if (fill) fill_send_buffer(series);
        if (fill || (i == 0 && !is_long(series))) warm_up(series, warm_up_exchanges(series));
        record(series, sample(series, series.count), series.count);
      }
      series.visits.push_back(static_cast<std::uint64_t>(samples));
    }
    series.elapsed_s += seconds_since(begun);
  }

  // The tutorial's measurement: `warmup` exchanges, then one clock pair around `iterations`. Without any warm-up the
  // first exchange has a clock pair of its own; see first_batch().
  void fixed_batch(Series& series) {
    series.count = sampling_.iterations;
    if (workload_.one_buffer) {
      one_buffer_batch(series);
      return;
    }
    fill_send_buffer(series);
    warm_up(series, sampling_.warmup);
    record(series, sample(series, sampling_.iterations), sampling_.iterations);
  }

  // One buffer for both directions. The answer then equals the message that was sent: it proves neither that data came
  // back nor that more than one exchange was made. Two more exchanges between separate buffers, not timed, prove that.
  void one_buffer_batch(Series& series) {
    // malloc, from which the tutorial's buffer comes, puts its header before a block.
    std::byte* const place = series.view.send + (series.memory == MemoryKind::host ? malloc_header_bytes : 0);
    const View one{place, place, series.view.bytes};
    if (sampling_.warmup > 0) {
      control_.ready();
      first_batch(series, one, sampling_.warmup);
    }
    ++series.repetition;
    const std::uint64_t sent = seed(series, 0);
    if (series.verified()) {
      series.verifier->poison(one.recv, one.bytes, sent);
      if (control_.leads()) series.verifier->fill(one.send, one.bytes, sent);
    }
    control_.ready();
    const bool warm = sampling_.warmup > 0;
    record(series, warm ? batch(series, one, series.count) : first_batch(series, one, series.count), series.count);
    if (!series.verified()) return;
    check_message(series, one.recv, sent);
    series.messages_verified += 1;
    fill_send_buffer(series);
    sample(series, std::min<std::uint64_t>(series.count, 2));
  }

  // Writes the send buffer. This happens before calibration also where nothing is verified, because pages that were
  // never written are all one page of zeros.
  void fill(Series& series) {
    if (series.verifier == nullptr) return;
    expect_writing(series);
    series.verifier->fill(series.view.send, series.view.bytes + fill_room_bytes, seed(series, control_.sends()));
  }

  // Begins with new contents. Afterwards this is rare: for some milliseconds a message that its sender has just written
  // takes up to 10 % longer, and a plain loop writes its message only once.
  void fill_send_buffer(Series& series) {
    ++series.repetition;
    series.message = 0;
    if (series.verified()) fill(series);
  }

  // Exchanges the first message of the fill without timing it, which brings caches into their steady state.
  void warm_up(Series& series, std::uint64_t exchanges) {
    if (exchanges == 0) return;
    control_.ready();
    timed_batch(series, series.view, exchanges);
  }

  // One sample: writes poison on the receive side, times the batch, and checks its last message, which differs from all
  // others since the fill. Returns the seconds of the batch.
  double sample(Series& series, std::uint64_t count) {
    // In a long exchange the message before this one is the poison, or message 0 that of message 2; see
    // host/pattern.hpp. It is wrong in every byte (in every element of a collective). The guards around it stay.
    const bool wrong_already = is_long(series) && series.message > 0;
    ++series.message;
    View view = series.view;
    view.last_offset = series.message * message_step_bytes;
    if (!wrong_already) write_poison(series, view);
    control_.ready();
    const double elapsed_s = timed_batch(series, view, count);
    check_contents(series, view);
    return elapsed_s;
  }

  double timed_batch(Series& series, const View& view, std::uint64_t count) {
    return series.count_s > 0 ? batch(series, view, count) : first_batch(series, view, count);
  }

  double batch(Series& series, const View& view, std::uint64_t count) {
    const double count_s = series.count_s > 0 ? 10 * series.count_s : slowest_count_s(series);
    watchdog_.progress(count_s * static_cast<double>(count));
    latest_ = &series;
    const Span mine = series.driver->batch(view, count, workload_.window);
    if (count == 0) return seconds_of(mine);  // the clock alone; the ends do not meet
    elapsed_ = control_.elapsed(mine);
    return elapsed_.seconds;
  }

  // A batch whose duration cannot be estimated. Its first exchange is timed alone, so that the watchdog knows how long
  // the others may take; on fresh buffers this is the cold exchange. Returns the seconds of both parts.
  double first_batch(Series& series, const View& view, std::uint64_t count) {
    const View before_last{view.send, view.recv, view.bytes};
    series.count_s = batch(series, count > 1 ? before_last : view, 1);
    const double first_s = series.count_s;
    if (series.fresh && !series.cold_s) series.cold_s = first_s / workload_.divisor;
    if (count == 1) return first_s;
    const double first_mean_s = elapsed_.mean_s.value_or(0);
    const double others_s = batch(series, view, count - 1);
    if (elapsed_.mean_s) *elapsed_.mean_s += first_mean_s;
    series.count_s = others_s / static_cast<double>(count - 1);
    return first_s + others_s;
  }

  void record(Series& series, double elapsed_s, std::uint64_t count) {
    const double counts = static_cast<double>(count) * workload_.divisor;
    const double value = elapsed_s / counts;
    series.messages_timed += count * (workload_.messages[0] + workload_.messages[1]);
    if (!control_.leads()) {
      if (workload_.second_times) series.second_samples.push_back(value);
      return;
    }
    series.first_samples.push_back(value);
    if (elapsed_.entry_skew_s) series.entry_skew_s.push_back(*elapsed_.entry_skew_s);
    if (elapsed_.mean_s) series.mean_samples.push_back(*elapsed_.mean_s / counts);
    const std::vector<double> parts = series.driver->parts_s();
    series.parts.resize(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) series.parts[i].push_back(parts[i]);
  }

  std::uint64_t seed(const Series& series, int direction) const {
    return seed_of({series.view.bytes, static_cast<std::uint64_t>(direction), series.repetition});
  }

  Contents expected(const Series& series) const {
    return {seed(series, control_.receives()), series.message * message_step_words};
  }

  void write_poison(Series& series, const View& view) {
    if (!series.verified() || !receives()) return;
    series.verifier->poison(view.recv, view.bytes, expected(series));
  }

  void check_contents(Series& series, const View& view) {
    if (!series.verified()) return;
    for (const auto moved : workload_.messages) series.messages_verified += moved > 0 ? 1 : 0;
    if (receives()) check_message(series, view.recv, expected(series));
  }

  // One more call of the timed function, in which every message has different contents and its own address, and is
  // compared. In a sample each message overwrites the one before it, so that a lost message or window does not show.
  void check_every_message(Series& series) {
    if (!series.verified() || series.buffer_bytes == 0) return;
    series.pass = pass_of(workload_, series.view.bytes, series.buffer_bytes);
    const auto& [counts, in_flight] = series.pass;
    if (counts == 0) return;
    const auto begun = Clock::now();
    tell_watchdog(series);
    View view = series.view;
    view.stride = pass_stride(view.bytes);
    const std::uint64_t before = series.repetition;
    series.message = 0;
    const auto each = [&](auto visit) {
      for (std::uint64_t i = 0; i < counts * in_flight; ++i) {
        series.repetition = before + 1 + i;
        expect_writing(series);
        visit(view.message(i));
      }
    };
    each([&](const View& message) {
      series.verifier->fill(message.send, message.bytes, seed(series, control_.sends()));
      write_poison(series, message);
    });
    control_.ready();
    watchdog_.progress(10 * series.count_s * static_cast<double>(counts) + slowest_count_s(series));
    latest_ = &series;
    std::optional<Window> window = workload_.window;
    if (window) window->messages = static_cast<int>(in_flight);
    static_cast<void>(series.driver->batch(view, counts, window));
    each([&](const View& message) { check_contents(series, message); });
    collect(series);
    if (series.mismatch) series.ended_by = EndedBy::failure;
    series.elapsed_s += seconds_since(begun);
  }

  void check_message(Series& series, const std::byte* message, const Contents& expected) {
    auto found = series.verifier->check(message, series.view.bytes, expected);
    if (!found || series.mismatch) return;
    found->rank = control_.id();
    series.mismatch = found;
  }

  // At the end of a round: all ends report to the first, which decides which points end and sends the decision.
  void end_round(std::vector<Series>& all, int rounds) {
    for (auto& series : all) {
      if (!series.open()) continue;
      watchdog_.progress();
      collect(series);
      // If calibration was interrupted, the samples show that the exchange is shorter.
      for (const double sample_s : series.first_samples) {
        series.count_s = std::min(series.count_s, sample_s * workload_.divisor);
      }
      series.count_s = control_.shared(series.count_s);
      series.ended_by = control_.shared(control_.leads() ? stop_reason(series, rounds) : EndedBy::open);
    }
  }

  void collect(Series& series) {
    const int wrong = control_.first_of(series.mismatch.has_value());
    if (wrong >= 0) series.mismatch = control_.shared(series.mismatch.value_or(Mismatch{}), wrong);
    if (!workload_.second_times) return;
    const std::uint64_t samples = control_.shared(series.second_samples.size(), 1);
    if (control_.leads()) series.second_samples.resize(samples);
    control_.share(series.second_samples.data() + series.second_samples_sent,
                   (samples - series.second_samples_sent) * sizeof(double), 1);
    series.second_samples_sent = samples;
  }

  EndedBy stop_reason(Series& series, int rounds) const {
    if (series.mismatch) return EndedBy::failure;
    if (sampling_.fixed) return EndedBy::fixed;
    if (rounds < sampling_.min_visits) return EndedBy::open;
    const auto both_within = [&] {
      return interval_within(series.first_samples, sampling_.ci) &&
             (series.second_samples.empty() || interval_within(series.second_samples, sampling_.ci));
    };
    if (is_long(series)) return both_within() ? EndedBy::ci : EndedBy::few;
    const std::size_t enough = sampling_.tail ? tail_samples : min_samples;
    if (series.first_samples.size() >= std::max(series.next_look, enough)) {
      if (both_within()) return EndedBy::ci;
      series.next_look = series.first_samples.size() + series.first_samples.size() / 10;
    }
    return series.elapsed_s >= sampling_.point_time_s ? EndedBy::time : EndedBy::open;
  }

  [[nodiscard]] bool receives() const {
    return workload_.messages[static_cast<std::size_t>(control_.receives() % 2)] > 0;
  }

  // The results of the previous message size of a series.
  struct Calibration {
    std::size_t bytes;
    std::uint64_t count;
    double count_s;
    double elapsed_s;  // after the cold exchange
    double cold_s;     // until its end; only fresh buffers have one: NCCL connects in it, for a second
  };

  Control& control_;
  const Sampling& sampling_;
  const Workload& workload_;
  Watchdog& watchdog_;
  Elapsed elapsed_;                 // of the latest batch
  const Series* latest_ = nullptr;  // whose message was exchanged last
  std::map<std::string, Calibration> last_;
};

Sampler::Sampler(Control& control, const Sampling& sampling, const Workload& workload, Watchdog& watchdog)
    : rounds_(std::make_unique<Rounds>(control, sampling, workload, watchdog)) {}

Sampler::~Sampler() = default;

void Sampler::measure(std::vector<Series>& all, double left_s) { rounds_->measure(all, left_s); }

}  // namespace volley
