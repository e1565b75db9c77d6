// What solves a rank's part of the problem: on the cores of its processor, or on its device.
#pragma once

#include "jacobi/halos.hpp"

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

void read_options(PlanObject& given, const Plan& plan, JacobiOptions& options);

// The residual of an iteration is the largest change of any point.
struct Residual {
  std::uint64_t iteration;  // counted from 0
  double value;
};

class ResidualHistory {
 public:
  explicit ResidualHistory(const JacobiOptions& options) : options_(options) {}

  [[nodiscard]] bool due(std::uint64_t iteration) const {
    return iteration + 1 == options_.iterations || iteration % options_.check_every == 0;
  }
  // Takes a residual as the bits of a number that is not negative or of a NaN. Call it in the order of the iterations.
  void take(std::uint64_t iteration, std::uint64_t bits) {
    const std::uint64_t every = options_.check_every;
    // Iterations from one kept residual to the next: the smallest multiple of `check_every` that is at least 100.
    const std::uint64_t apart = every >= 100 ? every : round_up<std::uint64_t>(100, every);
    if (!kept_.empty() && kept_.back().iteration % apart != 0) kept_.pop_back();
    const auto value = std::bit_cast<double>(bits);
    kept_.push_back({iteration, value});
    broken_ = !std::isfinite(value);
    converged_ = value <= options_.tolerance;
  }

  [[nodiscard]] bool converged() const { return converged_; }
  [[nodiscard]] bool broken() const { return broken_; }  // the last residual is not finite
  // The last residual, and those of about every hundredth iteration.
  [[nodiscard]] const std::vector<Residual>& kept() const { return kept_; }

 private:
  const JacobiOptions& options_;
  std::vector<Residual> kept_;
  bool converged_ = false;
  bool broken_ = false;
};

// Seconds of this rank, over all iterations.
struct TimeParts {
  double interior_s = 0;   // new values that need no halo; without overlap all new values
  double edges_s = 0;      // with overlap: new values that need a halo
  double pack_s = 0;       // halos to and from their messages
  double exchange_s = 0;   // starting the messages and waiting for them
  double reduction_s = 0;  // the residual of all ranks
};

class Solver {
 public:
  virtual ~Solver() = default;

  // Threads of the processor that compute; 0 on a device.
  [[nodiscard]] virtual int threads() const = 0;
  // Copies every point from one plane to the other, `times` times. Collective, as advance().
  virtual void copy(std::uint64_t times) = 0;
  // Makes up to `most` iterations, with open halos. Returns how many: fewer if the solution ended before.
  virtual std::uint64_t advance(std::uint64_t most) = 0;

  // See HostField in host_solver.hpp.
  [[nodiscard]] virtual std::uint64_t hash() = 0;
  [[nodiscard]] virtual double deviation() = 0;
  [[nodiscard]] virtual std::optional<std::array<std::int64_t, 2>> first_broken() = 0;

  [[nodiscard]] std::uint64_t iterations() const { return done_; }
  [[nodiscard]] const ResidualHistory& residuals() const { return residuals_; }
  [[nodiscard]] const TimeParts& parts() const { return parts_; }

 protected:
  Solver(const Context& context, const JacobiOptions& options, const Grid& grid, Halos& halos)
      : options_(options),
        grid_(grid),
        halos_(halos),
        residuals_(options),
        world_(Communicator::duplicate(context.world.get())) {}

  // Computes the residual of all ranks from the bits of this rank's, a number that is not negative or a NaN. The bits
  // have the order of the numbers, with every NaN after them: MPI_MAX of numbers may lose a NaN.
  void reduce(std::uint64_t iteration, std::uint64_t bits) {
    parts_.reduction_s +=
        timed([&] { VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &bits, 1, MPI_UINT64_T, MPI_MAX, world_.get())); });
    residuals_.take(iteration, bits);
  }
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
// On the current device. Only in builds with CUDA.
[[nodiscard]] std::unique_ptr<Solver> make_device_solver(const Context& context, const JacobiOptions& options,
                                                         const Grid& grid, Halos& halos);

}  // namespace volley::jacobi
