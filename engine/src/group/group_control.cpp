#include "group/group_control.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

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

void RankControl::share(void* bytes, std::size_t count, int from) {
  VOLLEY_MPI(MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, from, comm_));
}

int RankControl::first_of(bool mine) {
  int place = mine ? group_.self : group_.size();
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &place, 1, MPI_INT, MPI_MIN, comm_));
  return place < group_.size() ? place : -1;
}

std::string RankControl::agreed_problem(const std::function<void()>& step) {
  return agreed_reason(group_, problem_of(step));
}

void MpiControl::ready() {
  const int peer = group_.peer();
  if (leads()) VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, peer, 0, comm_));
  VOLLEY_MPI(MPI_Recv(nullptr, 0, MPI_BYTE, peer, 0, comm_, MPI_STATUS_IGNORE));
  if (!leads()) VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, peer, 0, comm_));
}

void NodeClock::compared(const ClockComparison& now) {
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

std::int64_t NodeClock::ahead_ns(std::int64_t own_ns) const {
  if (!last_) return 0;
  return last_->ahead_ns + std::llround(rate_ * static_cast<double>(own_ns - last_->at_ns));
}

GroupControl::GroupControl(const Context& context, const RankGroup& group) : RankControl(group) {
  std::map<int, std::size_t> nodes;
  for (int place = 0; place < group.size(); ++place) {
    const auto [node, is_new] = nodes.try_emplace(context.node(group.rank(place)), nodes.size());
    if (is_new) first_of_node_.push_back(place);
    if (place == group.self) node_ = node->second;
  }
  clocks_.resize(first_of_node_.size());
  compare_clocks();
}

void GroupControl::ready() {
  if (++batches_ == batches_between || static_cast<double>(batches_ns_) > seconds_between * 1e9) compare_clocks();
  VOLLEY_MPI(MPI_Barrier(comm_));
}

Elapsed GroupControl::elapsed(const Span& mine) {
  const Entries all = entries(mine, true);
  Elapsed elapsed = elapsed_from(all.last_entry_ns, all);
  elapsed.mean_s = mean_s(mine, true);
  return elapsed;
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

double GroupControl::take_clock_error_s() {
  compare_clocks();
  std::int64_t worst_ns = 0;
  for (NodeClock& clock : clocks_) worst_ns = std::max(worst_ns, clock.take_error_ns());
  return static_cast<double>(worst_ns) * 1e-9;
}

GroupControl::Entries GroupControl::entries(const Span& mine, bool counts) {
  // The earliest one has its sign turned: one reduction finds all three.
  const NodeClock& clock = clocks_[node_];
  const std::int64_t entry_ns = clock.common_ns(ns_of(mine.begin));
  const std::int64_t exit_ns = clock.common_ns(ns_of(mine.end));
  std::array<std::int64_t, 3> ns{-entry_ns, entry_ns, exit_ns};
  if (!counts) ns.fill(std::numeric_limits<std::int64_t>::min());
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, ns.data(), static_cast<int>(ns.size()), MPI_INT64_T, MPI_MAX, comm_));
  batches_ns_ += ns[2] + ns[0];
  return {-ns[0], ns[1], ns[2]};
}

double GroupControl::mean_s(const Span& mine, bool counts) {
  std::array<double, 2> sum_and_number{counts ? seconds_of(mine) : 0, counts ? 1.0 : 0};
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, sum_and_number.data(), 2, MPI_DOUBLE, MPI_SUM, comm_));
  return sum_and_number[0] / sum_and_number[1];
}

Elapsed GroupControl::elapsed_from(std::int64_t begin_ns, const Entries& all) {
  const auto seconds = [](std::int64_t count) { return static_cast<double>(count) * 1e-9; };
  return {.seconds = seconds(all.last_exit_ns - begin_ns),
          .entry_skew_s = seconds(all.last_entry_ns - all.first_entry_ns)};
}

}  // namespace volley
