#include "group/group_control.hpp"

namespace volley {
namespace {

constexpr int clock_tag = 60;

std::int64_t ns_of(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

ClockComparison compared_with(int other, int messages, MPI_Comm comm) {
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

void answer(int messages, MPI_Comm comm) {
  for (int i = 0; i < messages; ++i) {
    VOLLEY_MPI(MPI_Recv(nullptr, 0, MPI_INT64_T, 0, clock_tag, comm, MPI_STATUS_IGNORE));
    const std::int64_t now = ns_of(Clock::now());
    VOLLEY_MPI(MPI_Send(&now, 1, MPI_INT64_T, 0, clock_tag, comm));
  }
}

}  // namespace

GroupControl::GroupControl(const Context& context, const RankGroup& group) : RankControl(group) {
  std::vector<int> nodes;
  for (int place = 0; place < group.size(); ++place) {
    const int node = context.ranks[static_cast<std::size_t>(group.rank(place))].node;
    auto found = std::find(nodes.begin(), nodes.end(), node);
    if (found == nodes.end()) {
      first_of_node_.push_back(place);
      found = nodes.insert(nodes.end(), node);
    }
    if (place == group.self) node_ = static_cast<std::size_t>(found - nodes.begin());
  }
  clocks_.resize(first_of_node_.size());
  compare_clocks();
}

void GroupControl::compare_clocks() {
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

void GroupControl::ready() {
  if (++batches_ == batches_between || static_cast<double>(batches_ns_) > seconds_between * 1e9) compare_clocks();
  VOLLEY_MPI(MPI_Barrier(comm_));
}

GroupControl::Entries GroupControl::entries(const Span& mine, bool counts) {
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

Elapsed GroupControl::elapsed_from(std::int64_t begin_ns, const Entries& all) {
  const auto seconds = [](std::int64_t count) { return static_cast<double>(count) * 1e-9; };
  return {.seconds = seconds(all.last_exit_ns - begin_ns),
          .entry_skew_s = seconds(all.last_entry_ns - all.first_entry_ns)};
}

double GroupControl::mean_s(const Span& mine, bool counts) {
  std::array<double, 2> sum_and_number{counts ? seconds_of(mine) : 0, counts ? 1.0 : 0};
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, sum_and_number.data(), 2, MPI_DOUBLE, MPI_SUM, comm_));
  return sum_and_number[0] / sum_and_number[1];
}

Elapsed GroupControl::elapsed(const Span& mine) {
  const Entries all = entries(mine, true);
  Elapsed elapsed = elapsed_from(all.last_entry_ns, all);
  elapsed.mean_s = mean_s(mine, true);
  return elapsed;
}

double GroupControl::take_clock_error_s() {
  compare_clocks();
  std::int64_t worst_ns = 0;
  for (NodeClock& clock : clocks_) worst_ns = std::max(worst_ns, clock.take_error_ns());
  return static_cast<double>(worst_ns) * 1e-9;
}

bool GroupControl::met(const Span& mine) {
  const Entries all = entries(mine, true);
  std::int64_t error_ns = 0;
  for (const NodeClock& clock : clocks_) error_ns = std::max(error_ns, clock.error_ns());
  return all.first_exit_ns + 2 * error_ns >= all.last_entry_ns;
}

}  // namespace volley
