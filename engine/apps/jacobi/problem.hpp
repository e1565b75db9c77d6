// One problem with the halos of one transport, from the first touch of its field to the last comparison.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jacobi/worker.hpp"
#include "measure/watchdog.hpp"
#include "record/plan.hpp"

namespace volley::jacobi {

// What the record tells of a solution.
struct Findings {
  int threads = 0;  // of the rank with the fewest
  std::optional<Stores> stores;
  std::vector<double> copy_s;
  std::uint64_t copy_bytes = 0;
  double cold_exchange_s = 0;
  std::vector<std::uint64_t> batch_iterations;
  std::vector<double> batches_s;
  std::vector<Parts> parts;  // of every rank
  std::vector<Residual> residuals;
  std::uint64_t iterations = 0;
  bool converged = false;
  std::optional<std::uint64_t> hash;
  std::optional<double> error;
  std::uint64_t messages_verified = 0;
  std::optional<WrongHalo> wrong;
  std::string reason;    // why it failed
  double elapsed_s = 0;  // of this problem alone
};

// Every call is collective over the world.
class Problem {
 public:
  Problem(const Context& context, const Plan& plan, const JacobiOptions& options, const Grid& grid,
          const TransportEntry& entry, Halos& halos, Watchdog& watchdog);

  // Everything up to the first iteration: memory, the copies, the first halos.
  void begin();
  // It has not failed, and there are iterations left.
  [[nodiscard]] bool going() const;
  // Some iterations, timed together; the last halos are compared afterwards. The first batch is one iteration.
  void batch();
  // Everything behind the last iteration. Nothing of it is left but what was found.
  void finish();

  [[nodiscard]] const Findings& found() const { return found_; }
  // Seconds that the iterations left will take if none comes to the tolerance.
  [[nodiscard]] double left_s() const;

 private:
  void allow_for_pass();
  void choose_stores();
  void copies(std::vector<double>& each_s);
  [[nodiscard]] double iteration_s() const;
  [[nodiscard]] std::uint64_t next_batch() const;
  void judge_halos();
  void judge_field();
  void tell();

  const Context& context_;
  const Plan& plan_;
  const JacobiOptions& options_;
  const Grid& grid_;
  const TransportEntry& entry_;
  Halos& halos_;
  Watchdog& watchdog_;
  std::size_t point_bytes_;
  std::unique_ptr<Worker> worker_;
  Findings found_;
};

}  // namespace volley::jacobi
