// The problem solved with the halos of one transport, from the first touch of its field to the last comparison.
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

// Every call but `going`, `left_s`, `iterations` and `record` is collective over `all`, the ranks of the world.
class TransportSolve {
 public:
  TransportSolve(const Run& run, const RankGroup& all, const JacobiOptions& options, const Grid& grid,
                 const TransportEntry& entry);

  [[nodiscard]] const TransportEntry& entry() const { return entry_; }
  // Why this rank or another cannot use the transport; the same on all. Empty when all can.
  [[nodiscard]] std::string unavailable();

  // Everything up to the first iteration: memory, the copies, the first halos.
  void begin();
  // It has not failed, and there are iterations left.
  [[nodiscard]] bool going() const;
  // Some iterations, timed together; the last halos are compared afterwards. The first batch is one iteration.
  void batch();
  // Everything behind the last iteration; afterwards only the record is left.
  void finish();

  [[nodiscard]] std::uint64_t iterations() const { return iterations_; }
  // Seconds that the iterations left will take if none comes to the tolerance.
  [[nodiscard]] double left_s() const;
  // The record; skipped for this reason where there is one.
  [[nodiscard]] Json record(const std::string& skipped, bool interleaved) const;

 private:
  [[nodiscard]] std::string own_reason();
  void expect_pass();
  void measure_copies();
  [[nodiscard]] double iteration_s() const;
  [[nodiscard]] std::uint64_t next_batch() const;
  void check_halos();
  void check_field();
  void gather();

  const Run& run_;
  const RankGroup& all_;
  MPI_Comm world_;
  const JacobiOptions& options_;
  const Grid& grid_;
  const TransportEntry& entry_;
  Halos halos_;
  std::unique_ptr<Solver> solver_;

  std::string not_opened_;  // why
  std::string failure_;     // why
  int threads_ = 0;         // of the rank with the fewest
  std::vector<double> copy_s_;
  double cold_exchange_s_ = 0;
  std::vector<std::uint64_t> batch_iterations_;
  std::vector<double> batch_s_;
  std::uint64_t iterations_ = 0;
  bool converged_ = false;
  std::vector<Residual> residuals_;
  std::vector<TimeParts> parts_;  // of every rank
  Json hash_;                     // null where it failed
  Json deviation_;                // null where it failed
  std::uint64_t messages_verified_ = 0;
  std::optional<WrongHalo> wrong_;
  double elapsed_s_ = 0;  // of this solution alone
};

}  // namespace volley::jacobi
