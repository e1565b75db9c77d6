// The interval of the median: the published ranks, and coverage of at least 95 % on skewed data. When a point ends.
#include "expect.hpp"
#include "measure/stopping.hpp"

#include <cmath>
#include <cstdint>
#include <numbers>

using namespace volley;

namespace {

TEST(ranks_are_those_of_the_binomial) {
  // n, rank: largest r with P(Binomial(n, 1/2) < r) <= 0.025; standard tables of the sign test give the same.
  const std::size_t table[][2] = {{1, 0},  {5, 0},  {6, 1},  {8, 1},   {9, 2},
                                  {10, 2}, {12, 3}, {20, 6}, {50, 18}, {100, 40}};
  for (const auto& [n, rank] : table) EXPECT(interval_rank(n) == rank);
  EXPECT(interval_rank(100000) > 49000);  // stays finite where 2^-n does not
}

TEST(medians) {
  EXPECT(median({3, 1, 2}) == 2);
  EXPECT(median({4, 1, 2, 3}) == 2.5);
  EXPECT(median({7}) == 7);
  const Interval six = median_interval({6, 5, 4, 3, 2, 1});
  EXPECT(six.low == 1 && six.high == 6 && six.median == 3.5);
}

TEST(few_samples_have_no_interval) {
  const std::vector<double> five(5, 1.0);
  const std::vector<double> six(6, 1.0);
  EXPECT(!interval_within(five, 0.01));
  EXPECT(interval_within(six, 0.01));
  EXPECT(!interval_within(std::vector<double>{1, 1, 1, 1, 1, 1.02}, 0.01));
  EXPECT(!interval_within(std::vector<double>{0.98, 1, 1, 1, 1, 1}, 0.01));
}

// Exponential samples (median ln 2) from a fixed linear congruential sequence: no luck involved.
TEST(coverage_holds_on_skewed_data) {
  std::uint64_t state = 1;
  const auto uniform = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (static_cast<double>(state >> 11) + 0.5) / 9007199254740992.0;
  };
  int covered = 0;
  const int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> samples(15);
    for (auto& sample : samples) sample = -std::log(uniform());
    const Interval found = median_interval(samples);
    covered += found.low <= std::numbers::ln2 && std::numbers::ln2 <= found.high ? 1 : 0;
  }
  EXPECT(covered >= 0.95 * trials);
  EXPECT(covered < trials);
}

TEST(a_point_ends_for_a_reason) {
  Sampling plan;
  plan.min_visits = 3;
  plan.point_time_s = 1;
  const std::vector<double> narrow(8, 1.0);
  const std::vector<double> wide{1, 2, 3, 4, 5, 6, 7, 8};
  const auto ended = [&](const Taken& taken) { return StoppingRule().ended(plan, taken); };
  EXPECT(ended({.first_samples = narrow, .visits = 3}) == EndedBy::ci);
  EXPECT(ended({.first_samples = narrow, .visits = 2, .sampling_s = 9}) == EndedBy::open);
  EXPECT(ended({.first_samples = narrow, .second_samples = wide, .visits = 3}) == EndedBy::open);
  EXPECT(ended({.first_samples = wide, .visits = 3, .sampling_s = 0.9}) == EndedBy::open);
  EXPECT(ended({.first_samples = wide, .visits = 3, .sampling_s = 1}) == EndedBy::time);
  EXPECT(ended({.first_samples = wide, .visits = 3, .is_long = true}) == EndedBy::few);
  EXPECT(ended({.first_samples = wide, .visits = 1, .is_late = true}) == EndedBy::time);
  EXPECT(ended({.first_samples = wide, .visits = 1, .is_long = true, .is_late = true}) == EndedBy::few);
  EXPECT(ended({.first_samples = narrow, .visits = 3, .has_failed = true}) == EndedBy::failure);
  plan.tail = true;
  EXPECT(ended({.first_samples = narrow, .visits = 3}) == EndedBy::open);
  plan.fixed = true;
  EXPECT(ended({.first_samples = narrow, .visits = 1}) == EndedBy::fixed);
}

// After a look the next one is at a tenth more samples, even if the interval would be narrow before.
TEST(looks_are_rare) {
  Sampling plan;
  plan.min_visits = 1;
  StoppingRule rule;
  std::vector<double> samples(20, 1.0);
  for (std::size_t i = 0; i < samples.size(); i += 2) samples[i] = 2;
  EXPECT(rule.ended(plan, {.first_samples = samples, .visits = 1}) == EndedBy::open);
  const std::vector<double> narrow(22, 1.0);
  EXPECT(rule.ended(plan, {.first_samples = std::span(narrow).first(21), .visits = 2}) == EndedBy::open);
  EXPECT(rule.ended(plan, {.first_samples = narrow, .visits = 3}) == EndedBy::ci);
}

}  // namespace

int main() { return test::run_all(); }
