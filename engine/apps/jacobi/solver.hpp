// Solves a rank's part of the problem: on the cores of its processor, or on its device.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "group/context.hpp"
#include "jacobi/grid.hpp"
#include "jacobi/halos.hpp"
#include "jacobi/options.hpp"
#include "jacobi/residual_history.hpp"

namespace volley::jacobi {

// Seconds of this rank, over all iterations.
struct TimeParts {
  double interior_s = 0;   // new values that need no halo; without overlap all new values
  double edges_s = 0;      // with overlap: new values that need a halo
  double pack_s = 0;       // halos to and from their messages
  double exchange_s = 0;   // starting the messages and waiting for them
  double reduction_s = 0;  // the residual of all ranks
};

// Copies and iterations are collective.
class Solver {
 public:
  virtual ~Solver() = default;

  // Threads of the processor that compute; 0 on a device.
  [[nodiscard]] virtual int threads() const = 0;
  // Copies every point from one plane to the other, `times` times.
  virtual void copy(std::uint64_t times) = 0;
  // Makes up to `most` iterations, with open halos. Returns how many: fewer if the solution ended before.
  virtual std::uint64_t advance(std::uint64_t most) = 0;

  // See host_field.hpp.
  [[nodiscard]] virtual std::uint64_t hash() = 0;
  [[nodiscard]] virtual double deviation() = 0;
  [[nodiscard]] virtual std::optional<std::array<std::int64_t, 2>> first_broken() = 0;

  [[nodiscard]] std::uint64_t iterations() const { return done_; }
  [[nodiscard]] const ResidualHistory& residuals() const { return residuals_; }
  [[nodiscard]] const TimeParts& parts() const { return parts_; }

 protected:
  Solver(const Context& context, const JacobiOptions& options, const Grid& grid, Halos& halos);

  // Computes the residual of all ranks from the bits of this rank's, a number that is not negative or a NaN. The bits
  // have the order of the numbers, with every NaN behind: MPI_MAX of numbers may lose a NaN, MPI_MAX of their bits does
  // not.
  void reduce(std::uint64_t iteration, std::uint64_t bits);
  // The solution has converged or is broken: no iteration follows.
  [[nodiscard]] bool over() const { return residuals_.converged() || residuals_.broken(); }

  const JacobiOptions& options_;
  const Grid& grid_;
  Halos& halos_;
  ResidualHistory residuals_;
  TimeParts parts_;
  std::uint64_t done_ = 0;  // iterations that count

 private:
  Communicator world_;  // for the residual alone
};

// `halos` exchanges points of the plan's precision, in the solver's kind of memory.
[[nodiscard]] std::unique_ptr<Solver> make_host_solver(const Context& context, const JacobiOptions& options,
                                                       const Grid& grid, Halos& halos);
// On the current device. Defined in device/*.cu in a build with CUDA, else in device/without_cuda.cpp.
[[nodiscard]] std::unique_ptr<Solver> make_device_solver(const Context& context, const JacobiOptions& options,
                                                         const Grid& grid, Halos& halos);

}  // namespace volley::jacobi
