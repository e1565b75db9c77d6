// The options of the solver: its part of the plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "record/plan.hpp"
#include "record/plan_object.hpp"

namespace volley::jacobi {

struct JacobiOptions {
  std::array<int, 2> grid{1, 1};             // processes along x and y
  std::array<std::int64_t, 2> domain{3, 3};  // points of each process along x and y
  bool single_precision = false;             // numbers of 4 bytes instead of 8
  std::uint64_t iterations = 1000;
  double tolerance = 1e-5;        // the solver ends when the residual is at most this
  std::uint64_t check_every = 1;  // iterations from one residual to the next
  bool overlap = true;            // the interior is computed while halos are exchanged
  std::optional<int> threads;     // of each rank; none: its share of the cores

  [[nodiscard]] std::size_t point_bytes() const { return single_precision ? sizeof(float) : sizeof(double); }
};

// Reads the options and checks them against the rest of the plan.
void read_options(PlanObject& given, const Plan& plan, JacobiOptions& options);

}  // namespace volley::jacobi
