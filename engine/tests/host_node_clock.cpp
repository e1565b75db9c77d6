// Clocks of two nodes: times of one, as times of the other, although they run at different rates.
#include <cmath>
#include <random>

#include "expect.hpp"
#include "group/group_control.hpp"

using namespace volley;

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t error_ns = 1'000;

// A clock that was ahead and gains or loses.
struct Drifting {
  double ahead_ns;
  double rate;
  [[nodiscard]] std::int64_t at(std::int64_t common_ns) const {
    return common_ns + std::llround(ahead_ns + rate * static_cast<double>(common_ns));
  }
  // Each comparison is wrong by as much as it may be, in either direction.
  [[nodiscard]] ClockComparison compared(std::int64_t common_ns, std::int64_t wrong_by_ns) const {
    return {at(common_ns), at(common_ns) - common_ns + wrong_by_ns, error_ns};
  }
};

// Between two comparisons no time is off by more than the comparisons allow: 1 s at 100 ppm would be 100 µs.
TEST(a_drift_is_taken_into_account) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int64_t> wrong(-error_ns, error_ns);
  for (const double rate : {-1e-4, -1e-6, 0.0, 3e-5, 1e-4}) {
    const Drifting theirs{5e9, rate};
    NodeClock clock;
    clock.compared(theirs.compared(0, wrong(random)));
    clock.compared(theirs.compared(second_ns, wrong(random)));
    for (std::int64_t now = second_ns; now < 10 * second_ns; now += second_ns) {
      const auto off_ns = std::llabs(clock.common_ns(theirs.at(now + second_ns / 2)) - (now + second_ns / 2));
      EXPECT(off_ns <= 4 * error_ns);
      clock.compared(theirs.compared(now + second_ns, wrong(random)));
    }
  }
}

// What was off before a comparison is in the error that it reports: the first drift, and a change of the rate.
TEST(a_drift_that_was_missed_is_an_error) {
  NodeClock clock;
  const Drifting fast{0, 1e-4};
  clock.compared(fast.compared(0, 0));
  EXPECT(clock.take_error_ns() == error_ns && clock.take_error_ns() == 0);
  clock.compared(fast.compared(second_ns, 0));
  EXPECT(clock.take_error_ns() >= 100'000);
  clock.compared(fast.compared(2 * second_ns, 0));
  EXPECT(clock.take_error_ns() <= 2 * error_ns);
  clock.compared(Drifting{2e5, 0}.compared(3 * second_ns, 0));
  EXPECT(clock.take_error_ns() >= 50'000);
}

TEST(time_never_runs_backwards) {
  const Drifting theirs{-7e12, 1e-4};
  NodeClock clock;
  for (const std::int64_t now : {std::int64_t{0}, second_ns}) clock.compared(theirs.compared(now, error_ns));
  std::int64_t before = clock.common_ns(theirs.at(second_ns));
  for (std::int64_t now = second_ns; now < second_ns + 1'000'000; now += 1'000) {
    const std::int64_t shown = clock.common_ns(theirs.at(now));
    EXPECT(shown >= before);
    before = shown;
  }
}

TEST(the_first_node_needs_no_comparison) { EXPECT(NodeClock().common_ns(42) == 42); }

}  // namespace

int main() { return test::run_all(); }
