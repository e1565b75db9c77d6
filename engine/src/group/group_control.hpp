// The agreements of ranks about a measurement: of two, and of n, which have a common clock.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "group/agreement.hpp"
#include "measure/control.hpp"

namespace volley {

class RankControl : public Control {
 public:
  explicit RankControl(const RankGroup& group) : group_(group), comm_(group.control.get()) {}

  [[nodiscard]] int ends() const final { return group_.size(); }
  [[nodiscard]] int number() const final { return group_.self; }
  [[nodiscard]] int id() const final { return group_.rank(group_.self); }
  [[nodiscard]] std::string name() const final { return group_.name; }
  void share(void* bytes, std::size_t count, int from) final;
  [[nodiscard]] int first_of(bool mine) final;
  [[nodiscard]] std::string agreed_problem(const std::function<void()>& step) final;

 protected:
  const RankGroup& group_;
  MPI_Comm comm_;
};

class MpiControl final : public RankControl {
 public:
  using RankControl::RankControl;
  [[nodiscard]] int sends() const override { return group_.self; }
  [[nodiscard]] int receives() const override { return group_.peer(); }
  void ready() override;
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
  void compared(const ClockComparison& now);

  [[nodiscard]] std::int64_t common_ns(std::int64_t own_ns) const { return own_ns - ahead_ns(own_ns); }

  // The largest error since the last call.
  [[nodiscard]] std::int64_t take_error_ns() { return std::exchange(worst_ns_, 0); }

 private:
  [[nodiscard]] std::int64_t ahead_ns(std::int64_t own_ns) const;

  std::optional<ClockComparison> first_;
  std::optional<ClockComparison> last_;
  double rate_ = 0;
  std::int64_t worst_ns_ = 0;
};

// n ranks, which contribute to one message and check one result. Each rank has its own clock pair around a batch, and
// all tell each other when they entered it and left it. Ranks of one node read one monotonic clock. Between nodes each
// node's clock is compared with that of the first rank: of several messages there and back the shortest says how far
// apart the clocks are, to half of its own time (D. L. Mills, RFC 5905, section 8; F. Cristian, 1989). They are
// compared again every `batches_between` batches or `seconds_between` of batches, and NodeClock takes the drift between
// two comparisons into account.
class GroupControl : public RankControl {
 public:
  GroupControl(const Context& context, const RankGroup& group);

  void ready() override;

  // From the last rank's entry to the last rank's exit; and the mean of the ranks' own times.
  [[nodiscard]] Elapsed elapsed(const Span& mine) override;

  void compare_clocks();

  // Compares the clocks again, and returns the largest error of a node's clock since the last call; 0 on one node.
  // Collective over the group.
  [[nodiscard]] double take_clock_error_s();

 protected:
  // Of the ranks that count: nanoseconds of the first rank's clock.
  struct Entries {
    std::int64_t first_entry_ns;
    std::int64_t last_entry_ns;
    std::int64_t last_exit_ns;
  };
  // Collective over the group, whether this rank counts or not.
  [[nodiscard]] Entries entries(const Span& mine, bool counts);

  // The mean of the seconds of the ranks that count. Collective as above; at least one rank counts.
  [[nodiscard]] double mean_s(const Span& mine, bool counts);

  // From `begin_ns`, an entry, to the last exit. This is at least the time of the rank with that entry, by its own
  // clock: no error of the common clock makes it negative.
  [[nodiscard]] static Elapsed elapsed_from(std::int64_t begin_ns, const Entries& all);

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
