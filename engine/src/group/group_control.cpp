#include "group/group_control.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "mpi/check.hpp"

namespace volley {

namespace {

constexpr int clock_tag = 60;

std::int64_t ns_of(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// How far the clock of the other end is ahead, and by how much that may be wrong.
struct Offset {
  std::int64_t ahead_ns = 0;
  std::int64_t error_ns = std::numeric_limits<std::int64_t>::max();
};

Offset offset_of(int other, int messages, MPI_Comm comm) {
  Offset best;
  for (int i = 0; i < messages; ++i) {
    std::int64_t theirs = 0;
    const std::int64_t before = ns_of(Clock::now());
    VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_INT64_T, other, clock_tag, comm));
    VOLLEY_MPI(MPI_Recv(&theirs, 1, MPI_INT64_T, other, clock_tag, comm, MPI_STATUS_IGNORE));
    const std::int64_t after = ns_of(Clock::now());
    const std::int64_t error = (after - before + 1) / 2;
    if (error < best.error_ns) best = {theirs - (before + (after - before) / 2), error};
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

GroupControl::GroupControl(const Context& context, const RankGroup& group) : group_(group), comm_(group.control.get()) {
  std::vector<int> nodes;
  for (int place = 0; place < group.size(); ++place) {
    const int node = context.ranks[static_cast<std::size_t>(group.rank(place))].node;
    auto found = std::find(nodes.begin(), nodes.end(), node);
    if (found == nodes.end()) {
      first_of_node_.push_back(place);
      found = nodes.insert(nodes.end(), node);
    }
    if (place == group.self) node_ = static_cast<int>(found - nodes.begin());
  }
  compare_clocks();
}

void GroupControl::compare_clocks() {
  if (first_of_node_.size() < 2) return;
  std::vector<Offset> offsets(first_of_node_.size());
  offsets[0] = {0, 0};
  for (std::size_t node = 1; node < offsets.size(); ++node) {
    if (group_.leads()) offsets[node] = offset_of(first_of_node_[node], messages_there_and_back, comm_);
    if (group_.self == first_of_node_[node]) answer(messages_there_and_back, comm_);
  }
  share(offsets.data(), offsets.size() * sizeof(Offset), 0);
  ahead_ns_ = offsets[static_cast<std::size_t>(node_)].ahead_ns;
  for (const auto& offset : offsets) error_ns_ = std::max(error_ns_, offset.error_ns);
}

void GroupControl::ready() {
  if (++batches_ % batches_between == 0) compare_clocks();
  VOLLEY_MPI(MPI_Barrier(comm_));
}

void GroupControl::share(void* bytes, std::size_t count, int from) {
  VOLLEY_MPI(MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, from, comm_));
}

int GroupControl::first_of(bool mine) {
  int place = mine ? group_.self : group_.size();
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &place, 1, MPI_INT, MPI_MIN, comm_));
  return place < group_.size() ? place : -1;
}

std::int64_t GroupControl::common_ns(Clock::time_point time) const { return ns_of(time) - ahead_ns_; }

GroupControl::Entries GroupControl::entries(const Span& mine, bool counts) {
  // The earliest ones have their signs turned: one reduction finds all four.
  const std::int64_t entry_ns = common_ns(mine.begin);
  const std::int64_t exit_ns = common_ns(mine.end);
  std::array<std::int64_t, 4> ns{-entry_ns, entry_ns, -exit_ns, exit_ns};
  if (!counts) ns.fill(std::numeric_limits<std::int64_t>::min());
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, ns.data(), static_cast<int>(ns.size()), MPI_INT64_T, MPI_MAX, comm_));
  return {-ns[0], ns[1], -ns[2], ns[3]};
}

Elapsed GroupControl::elapsed_from(std::int64_t begin_ns, const Entries& all) {
  const auto seconds = [](std::int64_t count) { return static_cast<double>(count) * 1e-9; };
  // Clocks that are off by more than a batch takes must not make it end before it begins.
  return {.seconds = seconds(std::max<std::int64_t>(all.last_exit_ns - begin_ns, 1)),
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

double GroupControl::take_clock_error_s() { return static_cast<double>(std::exchange(error_ns_, 0)) * 1e-9; }

bool GroupControl::met(const Span& mine) {
  const Entries all = entries(mine, true);
  return all.first_exit_ns + 2 * error_ns_ >= all.last_entry_ns;
}

}  // namespace volley
