// Messages and computations on the host: the exchange is started, the rank computes, the exchange is awaited.
#include <map>

#include "benchmark/overlap/overlap_driver.hpp"
#include "measure/timing_loop.hpp"

namespace volley::overlap {

namespace {

class HostOverlapDriver final : public OverlapDriver {
 public:
  HostOverlapDriver(Transport& transport, Work work, HostComputation& computation, int progress_calls)
      : OverlapDriver(work), transport_(transport), computation_(computation), progress_calls_(progress_calls) {}

  void prepare(const View& view) override {
    if (work_.exchanges) transport_.open_halo(view);
  }

  void windows(const View& view, std::uint64_t count, const Window&) override {
    count_ = count;
    computation_s_ = 0;
    whole_s_ = timed(
        [&](std::uint64_t n) {
          for (std::uint64_t i = 1; i <= n; ++i) once(i < n ? view : view.last());
        },
        count);
  }

  // When the exchange is complete a rank learns only when it has computed.
  [[nodiscard]] std::vector<double> parts_s() const override {
    const auto count = static_cast<double>(count_);
    return {whole_s_ / count, computation_s_ / count};
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

  Transport& transport_;
  HostComputation& computation_;
  int progress_calls_;
  std::uint64_t count_ = 1;
  double whole_s_ = 0;
  double computation_s_ = 0;
};

class HostComputations final : public Computations {
 public:
  HostComputation& computation(Limit limit) override {
    auto& made = computations_[limit];
    if (!made) made = make_host_computation(limit);
    return *made;
  }
  std::unique_ptr<OverlapDriver> driver(Transport& transport, Work work, Limit limit, int progress_calls) override {
    return std::make_unique<HostOverlapDriver>(transport, work, computation(limit), progress_calls);
  }

 private:
  std::map<Limit, std::unique_ptr<HostComputation>> computations_;
};

}  // namespace

std::unique_ptr<Computations> make_host_computations() { return std::make_unique<HostComputations>(); }

}  // namespace volley::overlap
