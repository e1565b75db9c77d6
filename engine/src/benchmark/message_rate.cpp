// The benchmark `message_rate`: several pairs of ranks send windows of messages at once, by a pattern. The one that
// receives acknowledges each window.
#include <deque>

#include "benchmark/transport_set.hpp"
#include "group/backoff_wait.hpp"
#include "group/group_control.hpp"
#include "measure/sampler.hpp"
#include "transport/host_driven.hpp"

namespace volley {
namespace {

// Who sends to whom, for pair i of n ranks: rank i of the first half to rank i of the second half; rank i + 1 to rank
// 0; rank 0 to rank i + 1; each rank to the next one, and the last to the first.
enum class Pattern { pairs, fan_in, fan_out, ring };

struct Traffic {
  Pattern pattern = Pattern::pairs;
  int ranks = 2;

  // The largest number of pairs.
  [[nodiscard]] int most() const {
    if (pattern == Pattern::pairs) return ranks / 2;
    return pattern == Pattern::ring ? ranks : ranks - 1;
  }
  // Sender and receiver.
  [[nodiscard]] std::array<int, 2> ends(int pair) const {
    switch (pattern) {
      case Pattern::pairs: return {pair, pair + ranks / 2};
      case Pattern::fan_in: return {pair + 1, 0};
      case Pattern::fan_out: return {0, pair + 1};
      case Pattern::ring: return {pair, (pair + 1) % ranks};
    }
    return {};
  }
  // The ranks of the first pairs: of each pair one, then the other ones.
  [[nodiscard]] std::vector<int> ranks_of(int pairs) const {
    std::vector<int> found;
    for (const bool receiver : {pattern == Pattern::fan_in, pattern != Pattern::fan_in}) {
      for (int pair = 0; pair < pairs; ++pair) {
        const int rank = ends(pair)[receiver ? 1 : 0];
        if (std::ranges::count(found, rank) == 0) found.push_back(rank);
      }
    }
    return found;
  }
  // The first pair of a rank, as its sender or its receiver; -1 if there is none.
  [[nodiscard]] int first_pair(int rank, bool receives) const {
    for (int pair = 0; pair < most(); ++pair) {
      if (ends(pair)[receives ? 1 : 0] == rank) return pair;
    }
    return -1;
  }
  // Messages that arrive at one rank have places of their own in the pass only.
  [[nodiscard]] bool share_a_pass() const { return pattern == Pattern::fan_in; }
};

// The agreements of all ranks. A sample lasts from the first sender's entry into the batch to the last sender's exit,
// when its last window is acknowledged: all that was sent was sent in this time. The mean of the senders' own times is
// what osu_mbw_mr divides by. The ranks of other pairs sleep until the first pair has finished the batch: if they
// waited in MPI, each would keep a core busy.
class PairsControl final : public GroupControl {
 public:
  PairsControl(const Context& context, const RankGroup& all, const Traffic& traffic, Watchdog& watchdog)
      : GroupControl(context, all),
        world_(context.world.get()),
        backoff_(context, watchdog),
        traffic_(traffic),
        sends_in_(traffic.first_pair(all.self, false)),
        receives_in_(traffic.first_pair(all.self, true)),
        first_pairs_(static_cast<std::size_t>(all.size())) {
    for (int pair = traffic.most(); pair-- > 0;) {
      for (const int rank : traffic.ends(pair)) first_pairs_[static_cast<std::size_t>(rank)] = pair;
    }
  }

  // Messages of two senders have different contents; those that arrive at one rank differ by their places in the pass.
  [[nodiscard]] int sends() const override { return 2 * sender_of(pair()) + (sends_in_ < 0 ? 1 : 0); }
  [[nodiscard]] int receives() const override {
    return 2 * sender_of(receives_in_ < 0 ? pair() : receives_in_) + (receives_in_ < 0 ? 1 : 0);
  }

  [[nodiscard]] Elapsed elapsed(const Span& mine) override {
    if (!active_) backoff_.receive(0, end_tag);
    for (int rank = 1; leads() && rank < group_.size(); ++rank) {
      if (first_pairs_[static_cast<std::size_t>(rank)] >= pairs_) send_text("", rank, end_tag, world_);
    }
    const bool counts = active_ && sends_in_ >= 0;
    const Entries senders = entries(mine, counts);
    Elapsed elapsed = elapsed_from(senders.first_entry_ns, senders);
    elapsed.mean_s = mean_s(mine, counts);
    return elapsed;
  }

  void take_part(int pairs) {
    pairs_ = pairs;
    active_ = takes_part(pairs);
  }

  // The first pair of this rank.
  [[nodiscard]] int pair() const { return sends_in_ < 0 ? receives_in_ : sends_in_; }
  [[nodiscard]] bool takes_part(int pairs) const { return pair() < pairs; }

 private:
  static constexpr int end_tag = 70;

  [[nodiscard]] int sender_of(int pair) const { return traffic_.share_a_pass() ? 0 : traffic_.ends(pair)[0]; }

  MPI_Comm world_;
  BackoffWait backoff_;
  const Traffic traffic_;
  const int sends_in_, receives_in_;  // the first pair in which this rank does so; -1: none
  std::vector<int> first_pairs_;      // of all ranks
  int pairs_ = 0;
  bool active_ = false;
};

// The messages of a rank with the other ends of its pairs, through MPI.
class PatternDriver final : public Driver {
 public:
  PatternDriver(const Traffic& traffic, int pairs, int self, MPI_Comm comm)
      : shared_(traffic.share_a_pass()), pairs_(static_cast<std::uint64_t>(pairs)) {
    for (int pair = 0; pair < pairs; ++pair) {
      const auto [sender, receiver] = traffic.ends(pair);
      if (receiver == self) links_.emplace_back(comm, sender, pair, false);
      if (sender == self) links_.emplace_back(comm, receiver, pair, true);
    }
  }

  void prepare(const View& view, const std::optional<Window>&) override {
    for (Link& link : links_) link.prepare(view);
  }

  // In a pass that they share, each pair has every n-th window.
  void run(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
    const bool apart = shared_ && view.stride > 0;
    const auto messages = static_cast<std::uint64_t>(window->messages);
    for (std::uint64_t i = 0; i < count; ++i) {
      const View first = (i + 1 < count ? view : view.last()).message(i * messages);
      const auto each = [&](auto act) {
        for (Link& link : links_) {
          if (!apart || i % pairs_ == link.pair) act(link);
        }
      };
      each([&](Link& link) { link.start(first, messages); });
      each([](Link& link) { link.finish(); });
      each([](Link& link) {
        if (!link.sends) link.acknowledge();
      });
      each([](Link& link) {
        if (link.sends) link.await_acknowledgement();
      });
    }
  }

 private:
  struct Link : MpiChannel {
    Link(MPI_Comm comm, int peer, int of_pair, bool sending)
        : pair(static_cast<std::uint64_t>(of_pair)), sends(sending) {
      comm_ = comm;
      peer_ = peer;
    }
    void start(const View& first, std::uint64_t messages) {
      for (std::uint64_t n = 0; n < messages; ++n) {
        if (sends) start_send(first.message(n));
        else start_recv(first.message(n));
      }
    }
    std::uint64_t pair;
    bool sends;
  };

  const bool shared_;
  const std::uint64_t pairs_;
  std::deque<Link> links_;
};

// What moves the messages of this rank's pair, or nothing where the pair takes no part.
class ActivePair final : public Driver {
 public:
  ActivePair(Driver& transport, int pairs, PairsControl& control)
      : transport_(transport), pairs_(pairs), active_(control.takes_part(pairs)), control_(control) {}
  void prepare(const View& view, const std::optional<Window>& window) override {
    if (active_) transport_.prepare(view, window);
  }
  void run(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
    if (active_) transport_.run(view, count, window);
  }
  void arm(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
    control_.take_part(pairs_);
    if (active_) transport_.arm(view, count, window);
  }
  void disarm() override {
    if (active_) transport_.disarm();
  }
  void rest() override {
    if (active_) transport_.rest();
  }

 private:
  Driver& transport_;
  const int pairs_;
  const bool active_;
  PairsControl& control_;
};

struct PairsPoint {
  int pairs = 0;
  std::unique_ptr<Driver> pattern;  // none: the transport's own
  std::unique_ptr<ActivePair> driver;
};

class MessageRateBenchmark final : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    options.some_sizes("sizes_bytes", sizes_bytes_);
    options.integer("window", window_.messages, 1, largest_window);
    options.choice("pattern", traffic_.pattern, std::array{"pairs", "fan-in", "fan-out", "ring"});
    traffic_.ranks = plan.world_size;
    options.integers("pairs", pairs_, "a number of pairs", 1);
    if (pairs_.empty()) options.complain("pairs", "expected at least one number of pairs");
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (pairs_[i] <= traffic_.most() && (pairs_[i] == traffic_.most() || traffic_.pattern != Pattern::ring)) continue;
      options.complain(PlanObject::place("pairs", i), traffic_.pattern == Pattern::ring
                                                          ? "a ring has a pair for each rank"
                                                          : "expected at most " + std::to_string(traffic_.most()) +
                                                                " pairs of so many ranks, found " +
                                                                std::to_string(pairs_[i]));
    }
    for (std::size_t i = 0; i < plan.transports.size() && traffic_.pattern != Pattern::pairs; ++i) {
      const std::string_view right = without_fault(plan.transports[i]);
      if (right == "host" || right == "aware") continue;
      options.complain_of_plan("transports",
                               "only `host` and `aware` send by a pattern, found `" + plan.transports[i] + "`");
    }
    if (plan.world_size < 2) options.complain_of_plan("world_size", "expected at least 2 ranks");
    if (plan.world_size % 2 == 0 || traffic_.pattern != Pattern::pairs) return;
    options.complain_of_plan("world_size",
                             "`message_rate` is between pairs of ranks, found " + std::to_string(plan.world_size));
  }

  Exit run(const Run& run) override {
    const RankGroup all = everyone(*run.context);
    PairsControl control(*run.context, all, traffic_, run.watchdog);
    const auto [sender, receiver] = traffic_.ends(control.pair());
    const bool in_pairs = traffic_.pattern == Pattern::pairs;
    const RankGroup group = in_pairs ? *make_group(*run.context, {sender, receiver}) : everyone(*run.context);
    TransportSet transports(*run.context, group, run.plan, run.watchdog);
    for (auto& candidate : transports.candidates()) {
      if (candidate.reason.empty()) candidate.reason = ruled_out(*run.context, all.ranks, run.plan, *candidate.entry);
    }
    agree(all, transports);
    transports.open(sizes_bytes_);
    agree(all, transports);
    transports.write_records(run.records);
    measure(run, all, group, transports, control);
    transports.close();
    return Exit::good;
  }

 private:
  // A transport that one pair cannot use is unavailable.
  static void agree(const RankGroup& all, TransportSet& transports) {
    for (auto& candidate : transports.candidates()) candidate.reason = agreed_reason(all, candidate.reason);
  }

  void measure(const Run& run, const RankGroup& all, const RankGroup& group, TransportSet& transports,
               PairsControl& control) const {
    const Workload timed = window_workload(window_);
    Sampler sampler(control, run.plan.sampling, timed, run.watchdog);
    for (std::size_t i = 0; i < sizes_bytes_.size(); ++i) {
      const double left_s = time_left_s(all, run.plan, run.records);
      std::vector<PairsPoint> points;
      std::vector<Series> series;
      for (auto& candidate : transports.candidates()) {
        if (!candidate.listed) continue;
        for (const int pairs : pairs_) {
          points.push_back({.pairs = pairs, .pattern = {}, .driver = {}});
          if (traffic_.pattern != Pattern::pairs) {
            points.back().pattern = pattern_driver(candidate, transports, pairs, group);
          }
          series.push_back(series_of(points.back(), candidate, transports, sizes_bytes_[i], all, control, run.plan));
          series.back().fresh = i == 0;
        }
      }
      control.compare_clocks();
      sampler.measure(series, left_s);
      const double clock_error_s = control.take_clock_error_s();
      for (std::size_t p = 0; p < series.size(); ++p) {
        run.records.write_point(record(points[p], std::move(series[p]), clock_error_s));
      }
    }
  }

  // With the fault of the transport.
  [[nodiscard]] std::unique_ptr<Driver> pattern_driver(const Candidate& candidate, const TransportSet& transports,
                                                       int pairs, const RankGroup& group) const {
    auto made = std::make_unique<PatternDriver>(traffic_, pairs, group.self, group.data.get());
    const Fault fault = candidate.entry->fault;
    if (fault == Fault::none) return made;
    Driver& right = *made;
    const FaultyDriver::Rank rank{.stops = group.self == 1, .slow = group.self <= 1};
    return std::make_unique<FaultyDriver>(right, fault, &transports.memory(candidate), rank,
                                          std::function<std::size_t(std::size_t)>{}, std::move(made));
  }

  // All pairs have the same limits: those of the pair with the least memory.
  Series series_of(PairsPoint& point, const Candidate& candidate, const TransportSet& transports, std::uint64_t bytes,
                   const RankGroup& all, PairsControl& control, const Plan& plan) const {
    Series series = transports.series(candidate, bytes, plan.verify, window_);
    series.variant = " (" + std::to_string(point.pairs) + (point.pairs == 1 ? " pair)" : " pairs)");
    series.skipped = agreed_reason(all, series.skipped);
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &series.buffer_bytes, 1, MPI_UINT64_T, MPI_MIN, all.control.get()));
    Driver& messages = point.pattern ? *point.pattern : *candidate.transport->messages();
    point.driver = std::make_unique<ActivePair>(messages, point.pairs, control);
    series.driver = point.driver.get();
    series.takes_part = control.takes_part(point.pairs);
    if (traffic_.share_a_pass()) series.sharers = static_cast<std::uint64_t>(point.pairs);
    return series;
  }

  // The first rank has counted the messages of one pair; all pairs send the same number, and check it if each has a
  // receiver of its own.
  Json record(const PairsPoint& point, Series series, double clock_error_s) const {
    series.messages_timed *= static_cast<std::uint64_t>(point.pairs);
    if (!traffic_.share_a_pass()) series.messages_verified *= static_cast<std::uint64_t>(point.pairs);
    return point_record("message_rate", traffic_.ranks_of(point.pairs), series,
                        {{"pairs", point.pairs},
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
  Traffic traffic_;
  Window window_;
};

}  // namespace

std::unique_ptr<Benchmark> make_message_rate() { return std::make_unique<MessageRateBenchmark>(); }

}  // namespace volley
