// On the host: the exchange is started, one core computes, the exchange is awaited.
#include <algorithm>

#include "benchmark/overlap/overlap.hpp"

namespace volley::overlap {
namespace {

// The compiler must not know them, or it would leave the multiplication out.
volatile double factor = 1.0;
volatile double addend = 1.0;

std::string miscounted(std::size_t wrong, std::size_t of) {
  if (wrong == 0) return {};
  return std::to_string(wrong) + " of " + std::to_string(of) + " results of the computation are wrong";
}

class HostOverlapDriver final : public OverlapDriver {
 public:
  HostOverlapDriver(HaloExchange& halo, OverlapWork work, Computation& computation, int progress_calls)
      : OverlapDriver(halo, work, computation), progress_calls_(progress_calls) {}

  // A rank learns only after its computation that the exchange is complete: the exchange takes the whole time.
  void run(const View& view, std::uint64_t count, const std::optional<Window>&) override {
    count_ = count;
    computation_s_ = 0;
    exchange_s_ = timed(
        [&](std::uint64_t n) {
          for (std::uint64_t i = 1; i <= n; ++i) once((i < n ? view : view.last()).message(i - 1));
        },
        count);
  }

 private:
  void once(const View& view) {
    if (work_.exchanges) halo_.start(view);
    if (work_.computes) computation_s_ += timed([&](std::uint64_t steps) { compute(steps); }, steps_);
    if (work_.exchanges) halo_.finish();
  }

  void compute(std::uint64_t steps) {
    const auto calls = work_.exchanges ? static_cast<std::uint64_t>(progress_calls_) : 0;
    std::uint64_t done = 0;
    for (std::uint64_t call = 1; call <= calls; ++call) {
      const std::uint64_t until = steps * call / (calls + 1);
      computation_.compute(until - done);
      done = until;
      halo_.progress();
    }
    computation_.compute(steps - done);
  }

  int progress_calls_;
};

class HostComputation : public Computation {
  std::unique_ptr<OverlapDriver> driver(HaloExchange& halo, OverlapWork work, int progress_calls) final {
    return std::make_unique<HostOverlapDriver>(halo, work, *this, progress_calls);
  }
};

// y = a x + y, as daxpy of BLAS: two loads and a store for each multiply-add. Each call goes on where the last one
// stopped, so that a short one finds nothing in the caches either.
class MemoryBound final : public HostComputation {
 public:
  MemoryBound() : x_(host_working_set_bytes() / (2 * sizeof(double)), 1.0), y_(x_.size(), 0.0) {}

  void compute(std::uint64_t steps) override {
    for (std::uint64_t left = steps * elements_per_step; left > 0;) {
      const auto count = std::min<std::uint64_t>(left, x_.size() - next_);
      add(x_.data() + next_, y_.data() + next_, count);
      left -= count;
      next_ = (next_ + count) % x_.size();
      if (next_ == 0) ++rounds_;
    }
  }

  std::string wrong() override {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < y_.size(); ++i) wrong += y_[i] == rounds_ + (i < next_ ? 1.0 : 0.0) ? 0 : 1;
    return miscounted(wrong, y_.size());
  }

  std::size_t working_set_bytes() const override { return 2 * x_.size() * sizeof(double); }

 private:
  static constexpr std::size_t elements_per_step = 64;  // a page has eight steps

  static void add(const double* __restrict x, double* __restrict y, std::uint64_t count) {
    const double a = factor;
    for (std::uint64_t i = 0; i < count; ++i) y[i] = a * x[i] + y[i];
  }

  std::vector<double> x_;
  std::vector<double> y_;
  std::size_t next_ = 0;
  double rounds_ = 0;
};

// v = v m + a in registers: several chains, so that no multiply-add waits for the one before.
class ArithmeticBound final : public HostComputation {
 public:
  void compute(std::uint64_t steps) override {
    const double m = factor;
    const double a = addend;
    std::array<double, chains> v = values_;
    for (std::uint64_t i = 0; i < steps * rounds_per_step; ++i) {
      for (double& each : v) each = each * m + a;
    }
    values_ = v;
    steps_ += steps;
  }

  std::string wrong() override {
    const auto expected = static_cast<double>(steps_ * rounds_per_step);
    const auto right = std::count(values_.begin(), values_.end(), expected);
    return miscounted(chains - static_cast<std::size_t>(right), chains);
  }

 private:
  static constexpr std::size_t chains = 16;
  static constexpr std::uint64_t rounds_per_step = 8;

  std::array<double, chains> values_{};
  std::uint64_t steps_ = 0;
};

}  // namespace

std::size_t host_working_set_bytes() {
  return std::clamp<std::size_t>(4 * last_cache_bytes(), std::size_t{128} << 20, std::size_t{2} << 30);
}

std::unique_ptr<Computation> make_host_computation(Limit limit) {
  if (limit == Limit::memory) return std::make_unique<MemoryBound>();
  return std::make_unique<ArithmeticBound>();
}

}  // namespace volley::overlap
