// The agreements of n ranks, and their common clock.
#pragma once

#include <cstdint>

#include "group/rank_group.hpp"
#include "measure/control.hpp"

namespace volley {

// Each rank has its own clock pair around a batch, and all tell each other when they entered it and left it. Ranks of
// one node read one monotonic clock. Between nodes each node's clock is compared with that of the first rank: of
// several messages there and back the shortest says how far apart the clocks are, to half of its own time (D. L. Mills,
// RFC 5905, section 8; F. Cristian, 1989). Every `batches_between` batches they are compared again, since clocks drift.
class GroupControl : public Control {
 public:
  // Compares the clocks. Collective over the group.
  GroupControl(const Context& context, const RankGroup& group);

  [[nodiscard]] bool leads() const override { return group_.leads(); }
  [[nodiscard]] int id() const override { return group_.rank(group_.self); }
  [[nodiscard]] std::string name() const override { return std::to_string(group_.size()) + " ranks"; }
  // All contribute to the same message, and check the same result.
  [[nodiscard]] int sends() const override { return 0; }
  [[nodiscard]] int receives() const override { return 0; }
  void ready() override;
  void share(void* bytes, std::size_t count, int from) override;
  [[nodiscard]] int first_of(bool mine) override;
  // From the last rank's entry to the last rank's exit; and the mean of the ranks' own times.
  [[nodiscard]] Elapsed elapsed(const Span& mine) override;

  // Compares the clocks of the nodes. Collective over the group.
  void compare_clocks();
  // The largest error of a rank's clock since the last call; 0 on one node.
  [[nodiscard]] double take_clock_error_s();
  // Whether no rank left before the last one entered, as far as the clocks tell. Collective over the group.
  [[nodiscard]] bool met(const Span& mine);

 protected:
  // Of the ranks that count: nanoseconds of the first rank's clock.
  struct Entries {
    std::int64_t first_entry_ns;
    std::int64_t last_entry_ns;
    std::int64_t first_exit_ns;
    std::int64_t last_exit_ns;
  };
  // Collective over the group, whether this rank counts or not.
  [[nodiscard]] Entries entries(const Span& mine, bool counts);
  // The mean of the seconds of the ranks that count. Collective as above; at least one rank counts.
  [[nodiscard]] double mean_s(const Span& mine, bool counts);
  // From `begin_ns` to the last exit.
  [[nodiscard]] static Elapsed elapsed_from(std::int64_t begin_ns, const Entries& all);

 private:
  static constexpr int batches_between = 64;
  static constexpr int messages_there_and_back = 16;

  // Nanoseconds of the first rank's clock.
  [[nodiscard]] std::int64_t common_ns(Clock::time_point time) const;

  const RankGroup& group_;
  MPI_Comm comm_;
  int node_ = 0;
  std::vector<int> first_of_node_;  // places in the group, of the nodes in their order there
  std::int64_t ahead_ns_ = 0;       // this node's clock before the first rank's
  std::int64_t error_ns_ = 0;
  int batches_ = 0;
};

}  // namespace volley
