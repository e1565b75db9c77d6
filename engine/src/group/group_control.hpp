// The agreements of ranks about a measurement: of two, and of n, which have a common clock.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "group/agreement.hpp"
#include "measure/control.hpp"

namespace volley {

class RankControl : public Control {
 public:
  explicit RankControl(const RankGroup& group) : group_(group), comm_(group.control.get()) {}

  [[nodiscard]] bool leads() const final { return group_.leads(); }
  [[nodiscard]] int id() const final { return group_.rank(group_.self); }
  [[nodiscard]] std::string name() const final { return group_.name; }
  void share(void* bytes, std::size_t count, int from) final {
    VOLLEY_MPI(MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, from, comm_));
  }
  [[nodiscard]] int first_of(bool mine) final {
    int place = mine ? group_.self : group_.size();
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &place, 1, MPI_INT, MPI_MIN, comm_));
    return place < group_.size() ? place : -1;
  }
  [[nodiscard]] std::string agreed_problem(const std::function<void()>& step) final {
    return agreed_reason(group_, problem_of(step));
  }

 protected:
  const RankGroup& group_;
  MPI_Comm comm_;
};

class MpiControl final : public RankControl {
 public:
  using RankControl::RankControl;
  [[nodiscard]] int sends() const override { return group_.self; }
  [[nodiscard]] int receives() const override { return group_.peer(); }
  void ready() override {
    const int peer = group_.peer();
    if (leads()) VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, peer, 0, comm_));
    VOLLEY_MPI(MPI_Recv(nullptr, 0, MPI_BYTE, peer, 0, comm_, MPI_STATUS_IGNORE));
    if (!leads()) VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, peer, 0, comm_));
  }
};

// How far this node's clock was ahead when it showed `at_ns`, and by how much that may be wrong.
struct ClockComparison {
  std::int64_t at_ns = 0;
  std::int64_t ahead_ns = 0;
  std::int64_t error_ns = 0;
};

// Two clocks run at rates that differ by up to about 100 ppm: 100 µs in a second. After two comparisons the difference
// of the rates is known and extrapolated; the next comparison shows how wrong that was.
class NodeClock {
 public:
  void compared(const ClockComparison& now) {
    worst_ns_ = std::max(worst_ns_, now.error_ns);
    if (last_) {
      const std::int64_t missed_ns = std::llabs(now.ahead_ns - ahead_ns(now.at_ns));
      worst_ns_ = std::max(worst_ns_, missed_ns + now.error_ns);
    }
    if (!first_) first_ = now;
    const std::int64_t since_ns = now.at_ns - first_->at_ns;
    // The rate is not known better than the comparisons allow.
    const double uncertain = static_cast<double>(now.error_ns + first_->error_ns);
    const double drift_ns = static_cast<double>(now.ahead_ns - first_->ahead_ns);
    rate_ = since_ns > 0 && std::abs(drift_ns) > uncertain ? drift_ns / static_cast<double>(since_ns) : 0;
    last_ = now;
  }

  [[nodiscard]] std::int64_t common_ns(std::int64_t own_ns) const { return own_ns - ahead_ns(own_ns); }

  // The largest error so far.
  [[nodiscard]] std::int64_t error_ns() const { return worst_ns_; }
  // The largest error since the last call.
  [[nodiscard]] std::int64_t take_error_ns() { return std::exchange(worst_ns_, 0); }

 private:
  [[nodiscard]] std::int64_t ahead_ns(std::int64_t own_ns) const {
    if (!last_) return 0;
    return last_->ahead_ns + std::llround(rate_ * static_cast<double>(own_ns - last_->at_ns));
  }

  std::optional<ClockComparison> first_;
  std::optional<ClockComparison> last_;
  double rate_ = 0;
  std::int64_t worst_ns_ = 0;
};

constexpr int clock_tag = 60;

inline std::int64_t ns_of(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

inline ClockComparison compared_with(int other, int messages, MPI_Comm comm) {
  ClockComparison best{.error_ns = std::numeric_limits<std::int64_t>::max()};
  for (int i = 0; i < messages; ++i) {
    std::int64_t theirs = 0;
    const std::int64_t before = ns_of(Clock::now());
    VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_INT64_T, other, clock_tag, comm));
    VOLLEY_MPI(MPI_Recv(&theirs, 1, MPI_INT64_T, other, clock_tag, comm, MPI_STATUS_IGNORE));
    const std::int64_t after = ns_of(Clock::now());
    const std::int64_t error = (after - before + 1) / 2;
    if (error < best.error_ns) best = {theirs, theirs - (before + (after - before) / 2), error};
  }
  return best;
}

inline void answer(int messages, MPI_Comm comm) {
  for (int i = 0; i < messages; ++i) {
    VOLLEY_MPI(MPI_Recv(nullptr, 0, MPI_INT64_T, 0, clock_tag, comm, MPI_STATUS_IGNORE));
    const std::int64_t now = ns_of(Clock::now());
    VOLLEY_MPI(MPI_Send(&now, 1, MPI_INT64_T, 0, clock_tag, comm));
  }
}

// n ranks, which contribute to one message and check one result. Each rank has its own clock pair around a batch, and
// all tell each other when they entered it and left it. Ranks of one node read one monotonic clock. Between nodes each
// node's clock is compared with that of the first rank: of several messages there and back the shortest says how far
// apart the clocks are, to half of its own time (D. L. Mills, RFC 5905, section 8; F. Cristian, 1989). They are
// compared again every `batches_between` batches or `seconds_between` of batches, and NodeClock takes the drift between
// two comparisons into account.
class GroupControl : public RankControl {
 public:
  GroupControl(const Context& context, const RankGroup& group) : RankControl(group) {
    std::map<int, std::size_t> nodes;
    for (int place = 0; place < group.size(); ++place) {
      const auto [node, is_new] = nodes.try_emplace(context.node(group.rank(place)), nodes.size());
      if (is_new) first_of_node_.push_back(place);
      if (place == group.self) node_ = node->second;
    }
    clocks_.resize(first_of_node_.size());
    compare_clocks();
  }

  void ready() override {
    if (++batches_ == batches_between || static_cast<double>(batches_ns_) > seconds_between * 1e9) compare_clocks();
    VOLLEY_MPI(MPI_Barrier(comm_));
  }

  // From the last rank's entry to the last rank's exit; and the mean of the ranks' own times.
  [[nodiscard]] Elapsed elapsed(const Span& mine) override {
    const Entries all = entries(mine, true);
    Elapsed elapsed = elapsed_from(all.last_entry_ns, all);
    elapsed.mean_s = mean_s(mine, true);
    return elapsed;
  }

  void compare_clocks() {
    if (clocks_.size() < 2) return;
    std::vector<ClockComparison> found(clocks_.size());
    for (std::size_t node = 1; node < found.size(); ++node) {
      if (group_.leads()) found[node] = compared_with(first_of_node_[node], messages_there_and_back, comm_);
      if (group_.self == first_of_node_[node]) answer(messages_there_and_back, comm_);
    }
    share(found.data(), found.size() * sizeof found[0], 0);
    for (std::size_t node = 1; node < found.size(); ++node) clocks_[node].compared(found[node]);
    batches_ = 0;
    batches_ns_ = 0;
  }

  // Compares the clocks again, and returns the largest error of a node's clock since the last call; 0 on one node.
  // Collective over the group.
  [[nodiscard]] double take_clock_error_s() {
    compare_clocks();
    std::int64_t worst_ns = 0;
    for (NodeClock& clock : clocks_) worst_ns = std::max(worst_ns, clock.take_error_ns());
    return static_cast<double>(worst_ns) * 1e-9;
  }

  // Whether no rank left before the last one entered, as far as the clocks tell. Collective over the group.
  [[nodiscard]] bool met(const Span& mine) {
    const Entries all = entries(mine, true);
    std::int64_t error_ns = 0;
    for (const NodeClock& clock : clocks_) error_ns = std::max(error_ns, clock.error_ns());
    return all.first_exit_ns + 2 * error_ns >= all.last_entry_ns;
  }

 protected:
  // Of the ranks that count: nanoseconds of the first rank's clock.
  struct Entries {
    std::int64_t first_entry_ns;
    std::int64_t last_entry_ns;
    std::int64_t first_exit_ns;
    std::int64_t last_exit_ns;
  };
  // Collective over the group, whether this rank counts or not.
  [[nodiscard]] Entries entries(const Span& mine, bool counts) {
    // The earliest ones have their signs turned: one reduction finds all four.
    const NodeClock& clock = clocks_[node_];
    const std::int64_t entry_ns = clock.common_ns(ns_of(mine.begin));
    const std::int64_t exit_ns = clock.common_ns(ns_of(mine.end));
    std::array<std::int64_t, 4> ns{-entry_ns, entry_ns, -exit_ns, exit_ns};
    if (!counts) ns.fill(std::numeric_limits<std::int64_t>::min());
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, ns.data(), static_cast<int>(ns.size()), MPI_INT64_T, MPI_MAX, comm_));
    batches_ns_ += ns[3] + ns[0];
    return {-ns[0], ns[1], -ns[2], ns[3]};
  }

  // The mean of the seconds of the ranks that count. Collective as above; at least one rank counts.
  [[nodiscard]] double mean_s(const Span& mine, bool counts) {
    std::array<double, 2> sum_and_number{counts ? seconds_of(mine) : 0, counts ? 1.0 : 0};
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, sum_and_number.data(), 2, MPI_DOUBLE, MPI_SUM, comm_));
    return sum_and_number[0] / sum_and_number[1];
  }

  // From `begin_ns`, an entry, to the last exit. This is at least the time of the rank with that entry, by its own
  // clock: no error of the common clock makes it negative.
  [[nodiscard]] static Elapsed elapsed_from(std::int64_t begin_ns, const Entries& all) {
    const auto seconds = [](std::int64_t count) { return static_cast<double>(count) * 1e-9; };
    return {.seconds = seconds(all.last_exit_ns - begin_ns),
            .entry_skew_s = seconds(all.last_entry_ns - all.first_entry_ns)};
  }

 private:
  static constexpr int batches_between = 64;
  static constexpr double seconds_between = 0.25;  // of long batches
  static constexpr int messages_there_and_back = 16;

  std::size_t node_ = 0;            // of this rank, in the order below
  std::vector<int> first_of_node_;  // places in the group, of the nodes in their order there
  std::vector<NodeClock> clocks_;   // of these nodes
  int batches_ = 0;                 // since the clocks were compared
  std::int64_t batches_ns_ = 0;     // the time of these batches, the same on all ranks
};

}  // namespace volley
