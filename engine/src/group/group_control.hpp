// The agreements of ranks about a measurement: of two, and of n, which have a common clock.
#pragma once

#include "group/context.hpp"
#include "group/node_clock.hpp"
#include "measure/control.hpp"

namespace volley {

class MpiControl final : public PairControl {
 public:
  explicit MpiControl(const RankGroup& pair)
      : PairControl({pair.rank(0), pair.rank(1)}, pair.self, pair.peer()),
        name_(pair.name),
        comm_(pair.control.get()) {}

  [[nodiscard]] std::string name() const override { return name_; }
  void ready() override {
    if (leads()) VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, peer(), 0, comm_));
    VOLLEY_MPI(MPI_Recv(nullptr, 0, MPI_BYTE, peer(), 0, comm_, MPI_STATUS_IGNORE));
    if (!leads()) VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, peer(), 0, comm_));
  }
  void share(void* bytes, std::size_t count, int from) override {
    VOLLEY_MPI(MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, from, comm_));
  }

 private:
  std::string name_;
  MPI_Comm comm_;
};

// n ranks. Each rank has its own clock pair around a batch, and all tell each other when they entered it and left it.
// Ranks of one node read one monotonic clock. Between nodes each node's clock is compared with that of the first rank:
// of several messages there and back the shortest says how far apart the clocks are, to half of its own time (D. L.
// Mills, RFC 5905, section 8; F. Cristian, 1989). They are compared again every `batches_between` batches or
// `seconds_between` of batches, and node_clock.hpp takes the drift between two comparisons into account.
class GroupControl : public Control {
 public:
  GroupControl(const Context& context, const RankGroup& group);

  [[nodiscard]] bool leads() const override { return group_.leads(); }
  [[nodiscard]] int id() const override { return group_.rank(group_.self); }
  [[nodiscard]] std::string name() const override { return group_.name; }
  // All contribute to the same message, and check the same result.
  [[nodiscard]] int sends() const override { return 0; }
  [[nodiscard]] int receives() const override { return 0; }
  void ready() override;
  void share(void* bytes, std::size_t count, int from) override;
  [[nodiscard]] int first_of(bool mine) override;
  // From the last rank's entry to the last rank's exit; and the mean of the ranks' own times.
  [[nodiscard]] Elapsed elapsed(const Span& mine) override;

  void compare_clocks();
  // Compares the clocks again, and returns the largest error of a node's clock since the last call; 0 on one node.
  // Collective over the group.
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
  // From `begin_ns`, an entry, to the last exit. This is at least the time of the rank with that entry, by its own
  // clock: no error of the common clock makes it negative.
  [[nodiscard]] static Elapsed elapsed_from(std::int64_t begin_ns, const Entries& all);

 private:
  static constexpr int batches_between = 64;
  static constexpr double seconds_between = 0.25;  // of long batches
  static constexpr int messages_there_and_back = 16;

  const RankGroup& group_;
  MPI_Comm comm_;
  std::size_t node_ = 0;            // of this rank, in the order below
  std::vector<int> first_of_node_;  // places in the group, of the nodes in their order there
  std::vector<NodeClock> clocks_;   // of these nodes
  int batches_ = 0;                 // since the clocks were compared
  std::int64_t batches_ns_ = 0;     // the time of these batches, the same on all ranks
};

}  // namespace volley
