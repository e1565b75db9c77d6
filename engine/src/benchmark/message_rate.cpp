// The benchmark `message_rate`: several pairs of ranks send windows of messages at once. Rank i of the first half sends
// to rank i of the second half, which acknowledges each window.
#include "benchmark/transport_set.hpp"
#include "group/backoff_wait.hpp"
#include "group/group_control.hpp"
#include "measure/sampler.hpp"

namespace volley {
namespace {

// The ranks of these pairs, of `half` pairs: their first ranks, then their second ones.
std::vector<int> ranks_of_pairs(int begin, int end, int half) {
  std::vector<int> ranks;
  for (const int first : {0, half}) {
    for (int pair = begin; pair < end; ++pair) ranks.push_back(first + pair);
  }
  return ranks;
}

// The agreements of all ranks. A sample lasts from the first sender's entry into the batch to the last sender's exit,
// when its last window is acknowledged: all that was sent was sent in this time. The mean of the senders' own times is
// what osu_mbw_mr divides by. The ranks of other pairs sleep until the first pair has finished the batch: if they
// waited in MPI, each would keep a core busy.
class PairsControl final : public GroupControl {
 public:
  PairsControl(const Context& context, const RankGroup& all, Watchdog& watchdog)
      : GroupControl(context, all), world_(context.world.get()), backoff_(context, watchdog), half_(all.size() / 2) {
    sender_ = all.self < half_;
    pair_ = sender_ ? all.self : all.self - half_;
  }

  // Messages of two pairs have different contents.
  [[nodiscard]] int sends() const override { return 2 * pair_ + (sender_ ? 0 : 1); }
  [[nodiscard]] int receives() const override { return 2 * pair_ + (sender_ ? 1 : 0); }

  [[nodiscard]] Elapsed elapsed(const Span& mine) override {
    if (!active_) backoff_.receive(0, end_tag);
    for (const int rank : leads() ? ranks_of_pairs(pairs_, half_, half_) : std::vector<int>{}) {
      send_text("", rank, end_tag, world_);
    }
    const bool counts = active_ && sender_;
    const Entries senders = entries(mine, counts);
    Elapsed elapsed = elapsed_from(senders.first_entry_ns, senders);
    elapsed.mean_s = mean_s(mine, counts);
    return elapsed;
  }

  void take_part(int pairs) {
    pairs_ = pairs;
    active_ = pair_ < pairs;
  }

  [[nodiscard]] int pair() const { return pair_; }
  [[nodiscard]] std::vector<int> ranks_of_pair() const { return {pair_, pair_ + half_}; }

 private:
  static constexpr int end_tag = 70;

  MPI_Comm world_;
  BackoffWait backoff_;
  int half_;
  int pair_ = 0;
  int pairs_ = 0;
  bool sender_ = false;
  bool active_ = false;
};

// The transport of this rank's pair, or nothing where the pair takes no part.
class ActivePair final : public Driver {
 public:
  ActivePair(Driver& transport, int pairs, PairsControl& control)
      : transport_(transport), pairs_(pairs), active_(control.pair() < pairs), control_(control) {}
  void prepare(const View& view, const std::optional<Window>& window) override {
    if (active_) transport_.prepare(view, window);
  }
  void run(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
    if (active_) transport_.run(view, count, window);
  }
  void arm(const View& view, std::uint64_t count) override {
    control_.take_part(pairs_);
    if (active_) transport_.arm(view, count);
  }
  void disarm() override {
    if (active_) transport_.disarm();
  }

 private:
  Driver& transport_;
  const int pairs_;
  const bool active_;
  PairsControl& control_;
};

struct PairsPoint {
  std::string transport;
  int pairs = 0;
  std::unique_ptr<ActivePair> driver;
};

class MessageRateBenchmark final : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    options.some_sizes("sizes_bytes", sizes_bytes_);
    options.integer("window", window_.messages, 1, largest_window);
    options.integers("pairs", pairs_, "a number of pairs", 1);
    if (pairs_.empty()) options.complain("pairs", "expected at least one number of pairs");
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (pairs_[i] <= plan.world_size / 2) continue;
      options.complain(PlanObject::place("pairs", i), "expected at most " + std::to_string(plan.world_size / 2) +
                                                          ", a pair for each two ranks, found " +
                                                          std::to_string(pairs_[i]));
    }
    if (plan.world_size % 2 == 0) return;
    options.complain_of_plan("world_size",
                             "`message_rate` is between pairs of ranks, found " + std::to_string(plan.world_size));
  }

  Exit run(const Run& run) override {
    const RankGroup all = everyone(*run.context);
    PairsControl control(*run.context, all, run.watchdog);
    const auto pair = make_group(*run.context, control.ranks_of_pair());
    TransportSet transports(*run.context, *pair, run.plan, run.watchdog);
    for (auto& candidate : transports.candidates()) {
      if (candidate.reason.empty()) candidate.reason = ruled_out(*run.context, all.ranks, run.plan, *candidate.entry);
    }
    agree(all, transports);
    transports.open(sizes_bytes_);
    agree(all, transports);
    transports.write_records(run.records);
    measure(run, all, transports, control);
    transports.close();
    return Exit::good;
  }

 private:
  // A transport that one pair cannot use is unavailable.
  static void agree(const RankGroup& all, TransportSet& transports) {
    for (auto& candidate : transports.candidates()) candidate.reason = agreed_reason(all, candidate.reason);
  }

  void measure(const Run& run, const RankGroup& all, TransportSet& transports, PairsControl& control) const {
    const Workload timed = window_workload(window_);
    Sampler sampler(control, run.plan.sampling, timed, run.watchdog);
    for (std::size_t i = 0; i < sizes_bytes_.size(); ++i) {
      const double left_s = time_left_s(all, run.plan, run.records);
      std::vector<PairsPoint> points;
      std::vector<Series> series;
      for (auto& candidate : transports.candidates()) {
        if (!candidate.listed) continue;
        for (const int pairs : pairs_) {
          points.push_back({.transport = candidate.entry->name, .pairs = pairs, .driver = nullptr});
          series.push_back(series_of(points.back(), candidate, transports, sizes_bytes_[i], all, control, run.plan));
          series.back().fresh = i == 0;
        }
      }
      control.compare_clocks();
      sampler.measure(series, left_s);
      const double clock_error_s = control.take_clock_error_s();
      for (std::size_t p = 0; p < series.size(); ++p) {
        run.records.write_point(record(points[p], std::move(series[p]), all.size() / 2, clock_error_s));
      }
    }
  }

  // All pairs have the same limits: those of the pair with the least memory.
  Series series_of(PairsPoint& point, const Candidate& candidate, const TransportSet& transports, std::uint64_t bytes,
                   const RankGroup& all, PairsControl& control, const Plan& plan) const {
    Series series = transports.series(candidate, bytes, plan.verify, window_);
    series.name = point.transport + " (" + std::to_string(point.pairs) + (point.pairs == 1 ? " pair)" : " pairs)");
    series.skipped = agreed_reason(all, series.skipped);
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &series.buffer_bytes, 1, MPI_UINT64_T, MPI_MIN, all.control.get()));
    point.driver = std::make_unique<ActivePair>(*candidate.transport->messages(), point.pairs, control);
    series.driver = point.driver.get();
    series.takes_part = control.pair() < point.pairs;
    return series;
  }

  // The first rank has counted the messages of its own pair; all pairs send and check the same number.
  Json record(const PairsPoint& point, Series series, int half, double clock_error_s) const {
    series.messages_timed *= static_cast<std::uint64_t>(point.pairs);
    series.messages_verified *= static_cast<std::uint64_t>(point.pairs);
    return point_record("message_rate", ranks_of_pairs(0, point.pairs, half), series,
                        {{"transport", point.transport},
                         {"pairs", point.pairs},
                         {"window", window_.messages},
                         {"window_s", series.first_samples},
                         {"sender_window_s", series.mean_samples},
                         {"windows_per_sample", series.count},
                         {"cold_window_s", or_null(series.cold_s)},
                         {"entry_skew_s", series.entry_skew_s},
                         {"clock_error_s", clock_error_s}});
  }

  std::vector<std::uint64_t> sizes_bytes_;
  std::vector<int> pairs_;
  Window window_;
};

}  // namespace

std::unique_ptr<Benchmark> make_message_rate() { return std::make_unique<MessageRateBenchmark>(); }

}  // namespace volley
