// Messages and computations on the host: the exchange is started, the rank computes, the exchange is awaited.
#include "benchmark/overlap/overlap_driver.hpp"
#include "measure/timing_loop.hpp"

namespace volley::overlap {

namespace {

class HostOverlapDriver final : public OverlapDriver {
 public:
  HostOverlapDriver(Transport& transport, OverlapWork work, Computation& computation, int progress_calls)
      : OverlapDriver(transport, work, computation), progress_calls_(progress_calls) {}

  // A rank learns only after its computation that the exchange is complete: the exchange takes the whole time.
  void windows(const View& view, std::uint64_t count, const Window&) override {
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
    if (work_.exchanges) transport_.start(view);
    if (work_.computes) computation_s_ += timed([&](std::uint64_t steps) { compute(steps); }, steps_);
    if (work_.exchanges) transport_.finish();
  }

  void compute(std::uint64_t steps) {
    const auto calls = work_.exchanges ? static_cast<std::uint64_t>(progress_calls_) : 0;
    std::uint64_t done = 0;
    for (std::uint64_t call = 1; call <= calls; ++call) {
      const std::uint64_t until = steps * call / (calls + 1);
      computation_.compute(until - done);
      done = until;
      transport_.progress();
    }
    computation_.compute(steps - done);
  }

  int progress_calls_;
};

class HostComputations final : public Computations {
 public:
  std::unique_ptr<OverlapDriver> driver(Transport& transport, OverlapWork work, Limit limit,
                                        int progress_calls) override {
    return std::make_unique<HostOverlapDriver>(transport, work, computation(limit), progress_calls);
  }

 private:
  std::unique_ptr<Computation> make(Limit limit) override { return make_host_computation(limit); }
};

}  // namespace

std::unique_ptr<Computations> make_host_computations() { return std::make_unique<HostComputations>(); }

}  // namespace volley::overlap
