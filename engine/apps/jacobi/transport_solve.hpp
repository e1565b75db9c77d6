// Solves the problem with the halos of one transport, from the first touch of its field to the last comparison.
#pragma once

#include <cinttypes>
#include <cstdio>

#include "benchmark/benchmark.hpp"
#include "jacobi/solver.hpp"
#include "machine/placement.hpp"

namespace volley::jacobi {

// More bytes than any memory has.
inline constexpr std::uint64_t beyond_memory = ~std::uint64_t{0};

// Bytes of memory that each rank takes for its field.
[[nodiscard]] inline std::uint64_t field_bytes(MemoryKind kind, std::int64_t columns, std::int64_t rows,
                                               std::size_t point_bytes) {
  // No memory has room for this many points, and the number of their bytes would not fit into 64 bits.
  constexpr std::int64_t max_points = std::int64_t{1} << 56;
  if (columns > max_points / rows) return beyond_memory;
  return kind == MemoryKind::device ? device_field_bytes(columns, rows, point_bytes)
                                    : host_field_bytes(columns, rows, point_bytes);
}

// Every call but `going`, `left_s`, `iterations` and `skipped` is collective over `all`, the ranks of the world.
class TransportSolve {
 public:
  TransportSolve(const Run& run, const RankGroup& all, const JacobiOptions& options, const Grid& grid,
                 const TransportEntry& entry)
      : run_(run),
        all_(all),
        world_(all.control.get()),
        options_(options),
        grid_(grid),
        entry_(entry),
        halos_(*run.context, grid, entry, options.point_bytes()) {}

  [[nodiscard]] const TransportEntry& entry() const { return entry_; }
  // Why one of the ranks cannot use the transport; the same on all ranks. Empty if all can.
  [[nodiscard]] std::string unavailable() {
    const std::string reason = ruled_out(*run_.context, all_.ranks, run_.plan, entry_);
    return agreed_reason(all_, reason.empty() ? halos_.unavailable() : reason);
  }

  // Everything before the first iteration: memory, copies, first halos.
  void begin() {
    const auto begun = Clock::now();
    expect_pass();
    const auto make_solver = entry_.memory == MemoryKind::device ? make_device_solver : make_host_solver;
    solver_ = make_solver(*run_.context, options_, grid_, halos_);
    measure_copies();
    not_opened_ = agreed_reason(all_, open_halos());
    if (!not_opened_.empty()) {
      not_opened_ = "could not be opened: " + not_opened_;
    } else {
      cold_exchange_s_ = largest_of_all(halos_.verify_pattern());
      check_halos();
    }
    elapsed_s_ += seconds_since(begun);
  }

  // Whether iterations are left and none has failed.
  [[nodiscard]] bool going() const {
    return not_opened_.empty() && failure_.empty() && !solver_->residuals().converged() &&
           iterations_ < options_.iterations;
  }

  // Makes some iterations and times them together, then compares the last halos. The first batch is one iteration.
  void batch() {
    const auto begun = Clock::now();
    const std::uint64_t most = next_batch();
    if (run_.plan.verify) halos_.poison();
    if (batch_s_.empty()) expect_pass();
    else run_.watchdog.progress(10 * iteration_s() * static_cast<double>(most));
    batch_s_.push_back(slowest([&](std::uint64_t count) { solver_->advance(count); }, most));
    batch_iterations_.push_back(solver_->iterations() - iterations_);
    iterations_ = solver_->iterations();
    if (run_.plan.verify) halos_.compare();
    check_halos();
    check_field();
    elapsed_s_ += seconds_since(begun);
  }

  [[nodiscard]] Json finish(bool interleaved) {
    const auto begun = Clock::now();
    const bool opened = not_opened_.empty();
    Json record = opened ? result(interleaved) : skipped(not_opened_);
    solver_.reset();
    halos_.close();
    if (opened) record["elapsed_s"] = elapsed_s_ + seconds_since(begun);
    return record;
  }

  [[nodiscard]] std::uint64_t iterations() const { return iterations_; }
  // Seconds that the remaining iterations will take if none reaches the tolerance.
  [[nodiscard]] double left_s() const {
    return going() ? static_cast<double>(options_.iterations - iterations_) * iteration_s() : 0;
  }

  // The record of a transport that is not solved with, for this reason.
  [[nodiscard]] Json skipped(const std::string& reason) const { return head("skipped", reason); }

 private:
  // A batch of iterations takes about this long, and a solve has at least this many batches: each checks halos.
  static constexpr double batch_time_s = 0.2;
  static constexpr std::uint64_t min_batches = 20;

  [[nodiscard]] double largest_of_all(double value) const {
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, world_));
    return value;
  }
  [[nodiscard]] std::uint64_t sum_of_all(std::uint64_t value) const {
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, MPI_SUM, world_));
    return value;
  }
  // Seconds that the slowest rank takes for `body(count)`; all begin together.
  template <class Body>
  [[nodiscard]] double slowest(Body&& body, std::uint64_t count) const {
    VOLLEY_MPI(MPI_Barrier(world_));
    return largest_of_all(timed(body, count));
  }

  void expect_pass() {
    const auto bytes = field_bytes(entry_.memory, grid_.columns, grid_.rows, options_.point_bytes());
    run_.watchdog.progress(static_cast<double>(bytes) / slowest_bytes_per_s);
  }

  // All ranks copy their whole fields at once; measures the seconds of a copy on the slowest rank.
  void measure_copies() {
    constexpr int samples = 5;
    constexpr double sample_s = 2e-3;   // at least
    constexpr double max_copies = 1e6;  // of a sample, where the clock is too coarse for one
    const auto body = [&](std::uint64_t count) { solver_->copy(count); };
    expect_pass();
    const double once_s = slowest(body, 1);
    const auto count = static_cast<std::uint64_t>(std::clamp(std::ceil(sample_s / once_s), 1.0, max_copies));
    for (int i = 0; i < samples; ++i) {
      run_.watchdog.progress(10 * once_s * static_cast<double>(count));
      copy_s_.push_back(slowest(body, count) / static_cast<double>(count));
    }
  }

  [[nodiscard]] std::string open_halos() {
    const Binding wide(run_.job.cpus.libraries);
    return halos_.open(wait_share * run_.plan.watchdog_s);
  }

  [[nodiscard]] double iteration_s() const {
    return batch_s_.empty() ? 0 : batch_s_.back() / static_cast<double>(batch_iterations_.back());
  }

  [[nodiscard]] std::uint64_t next_batch() const {
    if (batch_s_.empty()) return 1;
    const auto most = static_cast<double>(std::max(std::uint64_t{1}, options_.iterations / min_batches));
    return static_cast<std::uint64_t>(std::clamp(std::ceil(batch_time_s / iteration_s()), 1.0, most));
  }

  // The result is the same on all ranks.
  void check_halos() {
    wrong_ = halos_.wrong();
    if (!wrong_) return;
    const auto& [mismatch, side, neighbour] = *wrong_;
    const std::string halo =
        "the halo that rank " + std::to_string(mismatch.rank) + " received on its " + name_of(side) + " side";
    failure_ =
        difference(halo, "rank " + std::to_string(neighbour) + " sent", mismatch) +
        (iterations_ == 0 ? ", before the first iteration" : ", in iteration " + std::to_string(iterations_ - 1));
  }

  void check_field() {
    if (!failure_.empty() || !solver_->residuals().broken()) return;
    const auto mine = solver_->first_broken();
    const auto points = mpi::all_gather(
        mine ? "column " + std::to_string((*mine)[0]) + ", row " + std::to_string((*mine)[1]) : "", world_);
    const auto first = std::find_if(points.begin(), points.end(), [](const auto& point) { return !point.empty(); });
    const auto rank = std::to_string(first - points.begin());
    failure_ = "the field is no longer finite in iteration " + std::to_string(iterations_ - 1) + ": " +
               (first == points.end() ? "a change is too large" : "first at " + *first + ", on rank " + rank);
  }

  [[nodiscard]] Json parts_of_all() const {
    std::vector<TimeParts> parts(static_cast<std::size_t>(all_.size()));
    constexpr int bytes = sizeof(TimeParts);
    VOLLEY_MPI(MPI_Allgather(&solver_->parts(), bytes, MPI_BYTE, parts.data(), bytes, MPI_BYTE, world_));
    Json list = Json::array();
    for (const auto& [interior_s, edges_s, pack_s, exchange_s, reduction_s] : parts) {
      list.push_back({{"interior_s", interior_s},
                      {"edges_s", edges_s},
                      {"pack_s", pack_s},
                      {"exchange_s", exchange_s},
                      {"reduction_s", reduction_s}});
    }
    return list;
  }

  [[nodiscard]] Json result(bool interleaved) {
    expect_pass();
    const Json parts = parts_of_all();
    Json hash = nullptr;
    Json deviation = nullptr;
    if (failure_.empty()) {
      std::array<char, 17> digits{};
      std::snprintf(digits.data(), digits.size(), "%016" PRIx64, sum_of_all(solver_->hash()));
      hash = digits.data();
      deviation = largest_of_all(solver_->deviation());
    }
    Json residuals = Json::array();
    for (const auto& [iteration, value] : solver_->residuals().kept()) {
      residuals.push_back({{"iteration", iteration}, {"residual", value}});
    }
    measure_copies();
    const double points = static_cast<double>(grid_.all_columns()) * static_cast<double>(grid_.all_rows());
    Json record = head(failure_.empty() ? "ok" : "failed", failure_);
    record["interleaved"] = interleaved;
    record["threads"] = static_cast<int>(-largest_of_all(-solver_->threads()));  // of the rank with the fewest
    record["iterations"] = iterations_;
    record["converged"] = solver_->residuals().converged();
    record["residuals"] = residuals;
    record["batch_iterations"] = batch_iterations_;
    record["batch_s"] = batch_s_;
    record["cold_exchange_s"] = cold_exchange_s_;
    record["parts"] = parts;
    record["copy_s"] = copy_s_;
    record["copy_bytes"] = static_cast<std::uint64_t>(2 * static_cast<double>(options_.point_bytes()) * points);
    record["field_hash"] = hash;
    record["deviation"] = deviation;
    record["messages_timed"] = grid_.messages() * iterations_;
    record["messages_verified"] = sum_of_all(halos_.compared());
    record["mismatch"] = wrong_ ? volley::to_json(wrong_->mismatch) : Json(nullptr);
    return record;
  }

  // What a record has in any case.
  [[nodiscard]] Json head(const char* status, const std::string& reason) const {
    return {{"record", "jacobi"},
            {"version", record_version},
            {"transport", entry_.name},
            {"grid", options_.grid},
            {"domain", options_.domain},
            {"precision", options_.single_precision ? "float" : "double"},
            {"overlap", options_.overlap},
            {"memory", name_of(entry_.memory)},
            {"status", status},
            {"reason", or_null(reason)}};
  }

  const Run& run_;
  const RankGroup& all_;
  MPI_Comm world_;
  const JacobiOptions& options_;
  const Grid& grid_;
  const TransportEntry& entry_;
  Halos halos_;
  std::unique_ptr<Solver> solver_;

  std::string not_opened_;  // why the transport was not opened; empty if it was
  std::string failure_;     // why the solve failed; empty if it did not
  std::vector<double> copy_s_;
  double cold_exchange_s_ = 0;
  std::vector<std::uint64_t> batch_iterations_;
  std::vector<double> batch_s_;
  std::uint64_t iterations_ = 0;
  std::optional<WrongHalo> wrong_;
  double elapsed_s_ = 0;  // with this transport
};

}  // namespace volley::jacobi
