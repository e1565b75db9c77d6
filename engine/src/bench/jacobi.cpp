#include "jacobi.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "../jacobi/solver.hpp"
#include "../measure/sample.hpp"
#include "../measure/stopping.hpp"
#include "../placement.hpp"
#include "../record/facts.hpp"
#include "../wire.hpp"

namespace volley {

namespace {

using namespace jacobi;

// A batch of iterations is about this long, and there are at least so many of them: each ends with a look at the halos.
constexpr double batch_s = 0.2;
constexpr std::uint64_t fewest_batches = 20;
// Copies: samples of each, and how long one is at least.
constexpr int copy_samples = 5;
constexpr double copy_sample_s = 2e-3;
// Bytes a second that the first touch of pages surpasses on any machine; the watchdog has more patience for more bytes.
constexpr double slowest_pass = 2e8;
// What a rank needs besides its field: messages, threads, MPI.
constexpr std::uint64_t spare_bytes = std::uint64_t{64} << 20;

// The largest number of all ranks'.
double largest_of(double value, MPI_Comm world) {
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, world));
  return value;
}

// Seconds that the slowest rank takes for `body(count)`, all having begun together.
template <class Body>
double slowest(const Context& context, Body&& body, std::uint64_t count) {
  VOLLEY_MPI(MPI_Barrier(context.world.get()));
  return largest_of(timed(body, count), context.world.get());
}

struct Hands {
  int threads = 1;
  std::vector<int> cpus;  // of each thread; empty: they may roam
};

// A rank's threads: a core each of those that are its own, or its part of those that it shares with other ranks.
Hands hands_of(const Context& context, const Jacobi& plan) {
  const RankFacts& self = context.ranks[static_cast<std::size_t>(context.rank)];
  const auto sharing = std::count_if(context.ranks.begin(), context.ranks.end(), [&](const RankFacts& other) {
    return other.node == self.node && other.cores == self.cores;
  });
  const auto cores = first_threads(self.cores, {});
  Hands hands;
  hands.threads = plan.threads.value_or(std::max(1, static_cast<int>(cores.size()) / static_cast<int>(sharing)));
  if (sharing == 1 && hands.threads <= static_cast<int>(cores.size())) hands.cpus = cores;
  return hands;
}

std::string in_gib(std::uint64_t bytes) {
  std::ostringstream text;
  text << std::setprecision(3) << static_cast<double>(bytes) / (1ULL << 30) << " GiB";
  return text.str();
}

// Why the domain cannot be had here; the same on all ranks. Empty when it can.
std::string too_large(const Context& context, const Jacobi& plan, std::size_t point_bytes) {
  std::uint64_t share = available_memory_bytes() / static_cast<std::uint64_t>(context.local_size);
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &share, 1, MPI_UINT64_T, MPI_MIN, context.world.get()));
  share = share > spare_bytes ? share - spare_bytes : 0;
  const std::uint64_t needed = field_bytes(plan.domain[0], plan.domain[1], point_bytes);
  if (needed <= share) return {};
  auto most = static_cast<std::int64_t>(std::sqrt(static_cast<double>(share) / 2 / static_cast<double>(point_bytes)));
  while (most > 0 && field_bytes(most, most, point_bytes) > share) --most;
  return "a domain of " + std::to_string(plan.domain[0]) + " x " + std::to_string(plan.domain[1]) + " points needs " +
         in_gib(needed) + " of memory on each rank, " + in_gib(share) + " is free: at most about " +
         std::to_string(most) + " x " + std::to_string(most);
}

// What the record tells of a solution.
struct Findings {
  int threads = 0;  // of the rank with the fewest
  Stores stores = Stores::cached;
  std::vector<double> copy_s;
  std::uint64_t copy_bytes = 0;
  double cold_exchange_s = 0;
  std::vector<std::uint64_t> batch_iterations;
  std::vector<double> batches_s;
  std::vector<Parts> parts;  // of every rank
  std::vector<Residue> residues;
  std::uint64_t iterations = 0;
  bool converged = false;
  std::optional<std::uint64_t> hash;
  std::optional<double> error;
  std::uint64_t messages_verified = 0;
  std::optional<WrongHalo> wrong;
  std::string reason;  // why it failed
  double elapsed_s = 0;
};

// One problem on one transport, from the first touch to the last comparison.
template <class Real>
class Problem {
 public:
  Problem(const Context& context, const Plan& plan, const Grid& grid, Halos& halos, Watchdog& watchdog)
      : context_(context),
        plan_(plan),
        grid_(grid),
        halos_(halos),
        watchdog_(watchdog),
        hands_(hands_of(context, plan.jacobi)),
        team_(hands_.threads, hands_.cpus),
        field_(awaited(grid, watchdog), team_) {}

  Findings solve() {
    found_.threads = -static_cast<int>(largest_of(-hands_.threads, context_.world.get()));
    choose_stores();
    begin();
    Solver<Real> solver(context_, plan_.jacobi, grid_, team_, field_, halos_, found_.stores);
    while (found_.reason.empty() && !solver.ended()) batch(solver);
    if (found_.reason.empty() && solver.broken()) found_.reason = where_broken(solver);
    tell(solver);
    copies(found_.stores, found_.copy_s);
    return std::move(found_);
  }

 private:
  // Says that a pass over the whole field may take a while, before the first of them.
  static const Grid& awaited(const Grid& grid, Watchdog& watchdog) {
    watchdog.progress(static_cast<double>(field_bytes(grid.columns(), grid.rows(), sizeof(Real))) / slowest_pass);
    return grid;
  }

  // The kind of stores that copies this very field faster, as measured; its copies are kept.
  void choose_stores() {
    const double points = static_cast<double>(grid_.all_columns()) * static_cast<double>(grid_.all_rows());
    found_.copy_bytes = static_cast<std::uint64_t>(2 * sizeof(Real) * points);
    copies(Stores::cached, found_.copy_s);
    if (!can_stream()) return;
    std::vector<double> streaming_s;
    copies(Stores::streaming, streaming_s);
    if (median(streaming_s) >= median(found_.copy_s)) return;
    found_.copy_s = std::move(streaming_s);
    found_.stores = Stores::streaming;
  }

  // Copies of the whole field by all threads of all ranks at once: seconds a copy, of the slowest rank.
  void copies(Stores stores, std::vector<double>& each_s) {
    const Region all{0, grid_.columns(), 0, grid_.rows()};
    const auto body = [&](std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i) {
        team_.run([&](int thread) {
          copy(field_.now(), field_.next(), share_of(all, grid_.rows(), thread, team_.size()), stores);
        });
      }
    };
    awaited(grid_, watchdog_);
    const double once_s = slowest(context_, body, 1);
    const auto count = static_cast<std::uint64_t>(std::max(1.0, std::ceil(copy_sample_s / once_s)));
    for (int i = 0; i < copy_samples; ++i) {
      watchdog_.progress(10 * once_s * static_cast<double>(count));
      each_s.push_back(slowest(context_, body, count) / static_cast<double>(count));
    }
  }

  void begin() {
    halos_.open();
    found_.cold_exchange_s = largest_of(halos_.prove(), context_.world.get());
    judge_halos(0);
  }

  // Some iterations, timed together; the last halos are compared afterwards. The first batch is one iteration.
  void batch(Solver<Real>& solver) {
    const std::uint64_t most = next_batch();
    if (plan_.verify) halos_.poison();
    watchdog_.progress(10 * iteration_s() * static_cast<double>(most));
    const double elapsed_s = slowest(context_, [&](std::uint64_t count) { solver.advance(count); }, most);
    found_.batches_s.push_back(elapsed_s);
    found_.batch_iterations.push_back(solver.iterations() - found_.iterations);
    found_.iterations = solver.iterations();
    if (plan_.verify) halos_.compare();
    judge_halos(found_.iterations);
  }

  [[nodiscard]] double iteration_s() const {
    return found_.batches_s.empty() ? 0 : found_.batches_s.back() / static_cast<double>(found_.batch_iterations.back());
  }

  [[nodiscard]] std::uint64_t next_batch() const {
    if (found_.batches_s.empty()) return 1;
    const auto wanted = static_cast<std::uint64_t>(std::ceil(batch_s / iteration_s()));
    return std::clamp(wanted, std::uint64_t{1}, std::max(std::uint64_t{1}, plan_.jacobi.iterations / fewest_batches));
  }

  // All ranks come to the same.
  void judge_halos(std::uint64_t iterations) {
    found_.wrong = halos_.wrong();
    if (!found_.wrong) return;
    const auto& [mismatch, side, neighbour] = *found_.wrong;
    found_.reason =
        "the halo that rank " + std::to_string(mismatch.rank) + " received on its " + name_of(side) +
        " side differs from what rank " + std::to_string(neighbour) + " sent in " +
        std::to_string(mismatch.wrong_bytes) + (mismatch.wrong_bytes == 1 ? " byte" : " bytes") + ", first at offset " +
        std::to_string(mismatch.offset_bytes) +
        (iterations == 0 ? ", before the first iteration" : ", in iteration " + std::to_string(iterations - 1));
  }

  [[nodiscard]] std::string where_broken(const Solver<Real>& solver) const {
    const auto mine = first_broken(field_, grid_);
    const auto points =
        wire::all_gather(mine ? "column " + std::to_string((*mine)[0]) + ", row " + std::to_string((*mine)[1]) : "",
                         context_.world.get());
    const auto first = std::find_if(points.begin(), points.end(), [](const auto& point) { return !point.empty(); });
    const auto rank = std::to_string(first - points.begin());
    return "the field is no longer finite in iteration " + std::to_string(solver.iterations() - 1) + ": " +
           (first == points.end() ? "a change is too large" : "first at " + *first + ", on rank " + rank);
  }

  void tell(const Solver<Real>& solver) {
    awaited(grid_, watchdog_);
    const MPI_Comm world = context_.world.get();
    found_.converged = solver.converged();
    found_.residues = solver.residues();
    found_.parts.resize(static_cast<std::size_t>(context_.size));
    VOLLEY_MPI(
        MPI_Allgather(&solver.parts(), sizeof(Parts), MPI_BYTE, found_.parts.data(), sizeof(Parts), MPI_BYTE, world));
    found_.messages_verified = halos_.compared();
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &found_.messages_verified, 1, MPI_UINT64_T, MPI_SUM, world));
    if (!found_.reason.empty()) return;
    std::uint64_t hash = hash_of(field_, grid_, team_);
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &hash, 1, MPI_UINT64_T, MPI_SUM, world));
    found_.hash = hash;
    found_.error = largest_of(error_of(field_, grid_, team_), world);
  }

  const Context& context_;
  const Plan& plan_;
  const Grid& grid_;
  Halos& halos_;
  Watchdog& watchdog_;
  Hands hands_;
  Team team_;
  Field<Real> field_;
  Findings found_;
};

std::string hexadecimal(std::uint64_t value) {
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(16) << value;
  return text.str();
}

Json parts_json(const std::vector<Parts>& ranks) {
  Json list = Json::array();
  for (const auto& parts : ranks) {
    list.push_back({{"interior_s", parts.interior_s},
                    {"edges_s", parts.edges_s},
                    {"pack_s", parts.pack_s},
                    {"exchange_s", parts.exchange_s},
                    {"reduction_s", parts.reduction_s}});
  }
  return list;
}

// A number that JSON has.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json residues_json(const std::vector<Residue>& residues) {
  Json list = Json::array();
  for (const auto& [iteration, value] : residues)
    list.push_back({{"iteration", iteration}, {"residue", finite(value)}});
  return list;
}

Json mismatch_json(const std::optional<WrongHalo>& wrong) {
  if (!wrong) return nullptr;
  const Mismatch& mismatch = wrong->mismatch;
  return {{"rank", mismatch.rank},
          {"offset_bytes", mismatch.offset_bytes},
          {"expected", mismatch.expected},
          {"found", mismatch.found},
          {"wrong_bytes", mismatch.wrong_bytes}};
}

Json head(const TransportEntry& entry, const Jacobi& plan, const char* status, const std::string& reason) {
  return {{"record", "jacobi"},
          {"version", record_version},
          {"transport", entry.name},
          {"topology", plan.topology},
          {"domain", plan.domain},
          {"precision", plan.single ? "float" : "double"},
          {"overlap", plan.overlap},
          {"status", status},
          {"reason", reason.empty() ? Json(nullptr) : Json(reason)}};
}

Json jacobi_record(const TransportEntry& entry, const Jacobi& plan, const Findings& found) {
  const auto [across, along] = plan.topology;
  const std::uint64_t messages = 2 * (static_cast<std::uint64_t>(across - 1) * static_cast<std::uint64_t>(along) +
                                      static_cast<std::uint64_t>(along - 1) * static_cast<std::uint64_t>(across));
  Json record = head(entry, plan, found.reason.empty() ? "ok" : "failed", found.reason);
  record["threads"] = found.threads;
  record["stores"] = name_of(found.stores);
  record["iterations"] = found.iterations;
  record["converged"] = found.converged;
  record["residues"] = residues_json(found.residues);
  record["batch_iterations"] = found.batch_iterations;
  record["batch_s"] = found.batches_s;
  record["cold_exchange_s"] = found.cold_exchange_s;
  record["parts"] = parts_json(found.parts);
  record["copy_s"] = found.copy_s;
  record["copy_bytes"] = found.copy_bytes;
  record["field_hash"] = found.hash ? Json(hexadecimal(*found.hash)) : Json(nullptr);
  record["deviation"] = found.error ? Json(*found.error) : Json(nullptr);
  record["messages_timed"] = messages * found.iterations;
  record["messages_verified"] = found.messages_verified;
  record["mismatch"] = mismatch_json(found.wrong);
  record["elapsed_s"] = found.elapsed_s;
  return record;
}

template <class Real>
Json solved(const Context& context, const Plan& plan, const TransportEntry& entry, const Grid& grid, Halos& halos,
            Watchdog& watchdog) {
  const std::string reason = too_large(context, plan.jacobi, sizeof(Real));
  if (!reason.empty()) return head(entry, plan.jacobi, "skipped", reason);
  const auto begun = Clock::now();
  Findings found = Problem<Real>(context, plan, grid, halos, watchdog).solve();
  halos.close();
  found.elapsed_s = seconds_since(begun);
  return jacobi_record(entry, plan.jacobi, found);
}

}  // namespace

Exit run_jacobi(const Context& context, const Plan& plan, Records& records, Watchdog& watchdog) {
  const Grid grid(plan.jacobi, context.rank);
  const bool single = plan.jacobi.single;
  for (const auto& name : plan.transports) {
    const TransportEntry& entry = *find_transport(name);
    watchdog.enter("transport " + name + ", jacobi");
    Halos halos(context, grid, entry, single ? sizeof(float) : sizeof(double));
    const std::string reason = halos.unavailable();
    records.write(transport_record(entry, reason, Json::object()));
    if (!reason.empty()) continue;
    records.write_point(single ? solved<float>(context, plan, entry, grid, halos, watchdog)
                               : solved<double>(context, plan, entry, grid, halos, watchdog));
  }
  return wire::broadcast_value(records.failed(), 0, context.world.get()) ? Exit::failed : Exit::good;
}

}  // namespace volley
