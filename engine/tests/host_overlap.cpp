// The length of the computation of an overlap is found, however long it takes.
#include "benchmark/overlap/overlap.hpp"
#include "expect.hpp"
#include "transport/registry.hpp"

using namespace volley;
using namespace volley::overlap;

namespace {

struct NoComputation : Computation {
  std::unique_ptr<OverlapDriver> driver(HaloExchange&, OverlapWork, int) override { return nullptr; }
  void compute(std::uint64_t) override {}
  std::string wrong() override { return {}; }
};

// A step takes a microsecond.
struct SlowDriver : OverlapDriver {
  using OverlapDriver::OverlapDriver;
  void run(const View&, std::uint64_t count, const std::optional<Window>&) override {
    const auto begun = Clock::now();
    while (seconds_since(begun) < 1e-6 * static_cast<double>(count * steps_)) {
    }
  }
};

// All attempts together take longer than the watchdog waits. If it ended them, this program would end, too.
TEST(a_long_computation_is_not_ended) {
  constexpr double wanted_s = 0.2;
  HaloExchange none;
  NoComputation nothing;
  SlowDriver driver(none, {.computes = true}, nothing);
  LocalControl control(0, 1);
  Watchdog watchdog("test", 0.4);
  const auto steps = steps_for(control, watchdog, driver, wanted_s);
  EXPECT(steps > 0 && static_cast<double>(steps) * 1e-6 <= 1.1 * wanted_s);
}

}  // namespace

int main() { return test::run_all(); }
