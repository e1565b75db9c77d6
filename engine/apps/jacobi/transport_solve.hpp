// Solves the problem with the halos of one transport, from the first touch of its field to the last comparison.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmark/benchmark.hpp"
#include "jacobi/solver.hpp"
#include "record/json.hpp"

namespace volley::jacobi {

// More bytes than any memory has.
inline constexpr std::uint64_t beyond_memory = ~std::uint64_t{0};

// Bytes of memory that each rank takes for its field.
[[nodiscard]] std::uint64_t field_bytes(MemoryKind kind, std::int64_t columns, std::int64_t rows,
                                        std::size_t point_bytes);

// Every call but `going`, `left_s`, `iterations` and `skipped` is collective over `all`, the ranks of the world.
class TransportSolve {
 public:
  TransportSolve(const Run& run, const RankGroup& all, const JacobiOptions& options, const Grid& grid,
                 const TransportEntry& entry);

  [[nodiscard]] const TransportEntry& entry() const { return entry_; }
  // Why one of the ranks cannot use the transport; the same on all ranks. Empty if all can.
  [[nodiscard]] std::string unavailable();

  // Everything before the first iteration: memory, copies, first halos.
  void begin();
  // Whether iterations are left and none has failed.
  [[nodiscard]] bool going() const;
  // Makes some iterations and times them together, then compares the last halos. The first batch is one iteration.
  void batch();
  // Everything after the last iteration. Returns the record.
  [[nodiscard]] Json finish(bool interleaved);

  [[nodiscard]] std::uint64_t iterations() const { return iterations_; }
  // Seconds that the remaining iterations will take if none reaches the tolerance.
  [[nodiscard]] double left_s() const;
  // The record of a transport that is not solved with, for this reason.
  [[nodiscard]] Json skipped(const std::string& reason) const;

 private:
  void expect_pass();
  void measure_copies();
  [[nodiscard]] std::string open_halos();
  [[nodiscard]] double iteration_s() const;
  [[nodiscard]] std::uint64_t next_batch() const;
  void check_halos();
  void check_field();
  [[nodiscard]] Json result(bool interleaved);
  [[nodiscard]] Json head(const char* status, const std::string& reason) const;

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
