// Which series of a message size the sampler skips because they would take too long, how long the first one may be, and
// that every message behind the samples is checked.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "expect.hpp"
#include "measure/sampler.hpp"
#include "measure/workload.hpp"

using namespace volley;

namespace {

constexpr double long_exchange_s = 5e-3;

// Moves nothing; an exchange takes at least so long.
class PausingDriver final : public Driver {
 public:
  explicit PausingDriver(std::chrono::milliseconds pause) : pause_(pause) {}
  void round_trips(const View&, std::uint64_t exchanges) override {
    for (std::uint64_t i = 0; i < exchanges; ++i) std::this_thread::sleep_for(pause_);
  }
  void windows(const View&, std::uint64_t, const Window&) override {}

 private:
  std::chrono::milliseconds pause_;
};

std::vector<Series> measured(Sampler& sampler, const std::vector<Driver*>& drivers, std::size_t bytes) {
  std::vector<Series> all(drivers.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].name = "series " + std::to_string(i);
    all[i].driver = drivers[i];
    all[i].view.bytes = bytes;
  }
  sampler.measure(all);
  return all;
}

void a_slow_series_is_skipped_at_the_next_size(const Sampling& sampling, const char* exchanges) {
  PausingDriver slow(std::chrono::milliseconds(6));
  PausingDriver fast(std::chrono::milliseconds(0));
  LocalControl control(0, 1);
  Watchdog watchdog("test", 60);
  Workload workload = round_trip_workload();
  workload.limits.long_exchange_s = long_exchange_s;
  workload.max_counts = 1000;
  Sampler sampler(control, sampling, workload, watchdog);
  for (const auto& series : measured(sampler, {&slow, &fast}, 1024)) EXPECT(series.skipped.empty());
  const auto next = measured(sampler, {&slow, &fast}, 4096);
  EXPECT(next[0].skipped.find(std::string(exchanges) + " round trips would take more than the ") == 0);
  EXPECT(next[0].skipped.find("0.01 s that each transport has of the 0.02 s for this size") != std::string::npos);
  EXPECT(next[0].first_samples.empty() && next[0].ended_by == EndedBy::open);
  EXPECT(next[1].skipped.empty() && !next[1].first_samples.empty());
  for (const auto& series : measured(sampler, {&slow, &fast}, 1)) EXPECT(series.skipped.empty());
}

void without_a_limit_nothing_is_skipped(Sampling sampling) {
  sampling.size_time_s.reset();
  PausingDriver slow(std::chrono::milliseconds(6));
  LocalControl control(0, 1);
  Watchdog watchdog("test", 60);
  Workload workload = round_trip_workload();
  workload.limits.long_exchange_s = long_exchange_s;
  Sampler sampler(control, sampling, workload, watchdog);
  for (const std::size_t bytes : {1, 1 << 20}) EXPECT(measured(sampler, {&slow}, bytes)[0].skipped.empty());
}

// Notes how many exchanges each batch has.
class CountingDriver final : public Driver {
 public:
  void round_trips(const View&, std::uint64_t exchanges) override { batches.push_back(exchanges); }
  std::vector<std::uint64_t> batches;
};

// Nothing may communicate before the exchange that is called cold: not even an empty batch, which does in one-sided
// MPI.
void the_first_batch_is_the_cold_one() {
  for (const bool fixed : {false, true}) {
    Sampling sampling;
    sampling.fixed = fixed;
    sampling.warmup = 0;
    sampling.point_time_s = 1e-3;
    LocalControl control(0, 1);
    Watchdog watchdog("test", 60);
    Workload workload = round_trip_workload();
    workload.max_counts = 10;
    CountingDriver driver;
    std::vector<Series> all(1);
    all[0].driver = &driver;
    all[0].view.bytes = 8;
    all[0].fresh = true;
    Sampler(control, sampling, workload, watchdog).measure(all);
    EXPECT(driver.batches.front() == 1 && all[0].cold_s && all[0].empty_s);
    EXPECT(std::ranges::count(driver.batches, 0U) == workload.limits.empty_samples);
  }
}

// The first exchange of a large message takes longer than the watchdog waits. If it ended it, so would this program.
void a_long_first_batch_is_not_ended() {
  Sampling sampling;
  sampling.fixed = true;
  sampling.warmup = 0;
  sampling.iterations = 1;
  PausingDriver slow(std::chrono::milliseconds(1200));
  LocalControl control(0, 1);
  Watchdog watchdog("test", 0.3);
  const Workload workload = round_trip_workload();
  Sampler sampler(control, sampling, workload, watchdog);
  EXPECT(measured(sampler, {&slow}, std::size_t{1} << 30)[0].first_samples.size() == 1);
}

// Writes nothing. The first fill, or the first poison, takes long, as in memory that was never touched.
class SlowMemory final : public Verifier {
 public:
  explicit SlowMemory(bool poisons) : poisons_(poisons) {}
  void fill(std::byte*, std::size_t, const Contents&) override { write(!poisons_); }
  void poison(std::byte*, std::size_t, const Contents&) override { write(poisons_); }
  std::optional<Mismatch> check(const std::byte*, std::size_t, const Contents&) override { return std::nullopt; }

 private:
  void write(bool slow) {
    if (slow && !std::exchange(written_, true)) std::this_thread::sleep_for(std::chrono::milliseconds(700));
  }
  const bool poisons_;
  bool written_ = false;
};

// To write a large message first takes longer than the watchdog waits. If it ended it, so would this program.
void a_long_first_fill_is_not_ended() {
  LocalControl control(0, 1);
  PausingDriver fast(std::chrono::milliseconds(0));
  Workload workload = round_trip_workload();
  workload.max_counts = 1000;
  for (const bool fixed : {false, true}) {
    Sampling sampling;
    sampling.fixed = fixed;
    sampling.warmup = 0;
    sampling.point_time_s = 1e-3;
    SlowMemory verified(fixed);
    SlowMemory written(false);
    std::vector<Series> all(2);
    for (auto& series : all) {
      series.name = "series";
      series.driver = &fast;
      series.view.bytes = std::size_t{1} << 30;
      series.fresh = true;
    }
    all[0].verifier = &verified;
    all[1].verifier = &written;
    all[1].verify = false;
    Watchdog watchdog("test", 0.3);
    Sampler(control, sampling, workload, watchdog).measure(all);
    for (const auto& series : all) EXPECT(!series.first_samples.empty());
  }
}

// Counts the messages that are written and checked.
struct CountingVerifier final : Verifier {
  void fill(std::byte*, std::size_t, const Contents&) override { ++fills; }
  void poison(std::byte*, std::size_t, const Contents&) override { ++poisons; }
  std::optional<Mismatch> check(const std::byte*, std::size_t, const Contents&) override {
    ++checks;
    return std::nullopt;
  }
  int fills = 0;
  int poisons = 0;
  int checks = 0;
};

// Pages that were never written are all one page of zeros: without verification, too, the send buffer is written, once.
void what_is_sent_is_written_once_without_verification() {
  PausingDriver fast(std::chrono::milliseconds(0));
  LocalControl control(0, 0);
  Watchdog watchdog("test", 60);
  for (Workload workload : {round_trip_workload(), window_workload({})}) {
    workload.max_counts = 1000;
    for (const bool fixed : {false, true}) {
      Sampling sampling;
      sampling.fixed = fixed;
      sampling.point_time_s = 1e-3;
      CountingVerifier verifier;
      std::vector<Series> all(1);
      all[0].name = "series";
      all[0].driver = &fast;
      all[0].verifier = &verifier;
      all[0].verify = false;
      all[0].view.bytes = 100;
      all[0].buffer_bytes = 1000;
      all[0].fresh = true;
      Sampler(control, sampling, workload, watchdog).measure(all);
      EXPECT(verifier.fills == 1 && verifier.poisons == 0 && verifier.checks == 0);
      EXPECT(all[0].messages_verified == 0 && !all[0].first_samples.empty());
    }
  }
}

// Copies each message to its place, except one of those with places of their own: it is lost, or the one before it
// arrives there, too.
class LosingDriver final : public Driver {
 public:
  LosingDriver(std::uint64_t lost, bool doubles) : lost_(lost), doubles_(doubles) {}
  void round_trips(const View& view, std::uint64_t exchanges) override {
    if (view.stride > 0) batches.push_back(exchanges);
    for (std::uint64_t i = 0; i < exchanges; ++i) {
      const View message = (i + 1 < exchanges ? view : view.last()).message(i);
      if (view.stride == 0 || ++checked_ != lost_) std::memcpy(message.recv, message.send, message.bytes);
      else if (doubles_) std::memcpy(message.recv, message.send - view.stride, message.bytes);
    }
  }
  std::vector<std::uint64_t> batches;

 private:
  std::uint64_t lost_;
  bool doubles_;
  std::uint64_t checked_ = 0;
};

// Behind the samples all 16 messages are checked, in as many batches as the buffers have no room for.
void every_message_is_checked_once() {
  constexpr std::size_t bytes = 100;
  constexpr std::size_t place_bytes = 256;  // with two guards, and the message rounded up to their length
  const Workload workload = round_trip_workload();
  Sampling sampling;
  sampling.point_time_s = 1e-3;
  using Batches = std::vector<std::uint64_t>;
  for (const auto& [places, batches] : {std::pair<std::size_t, Batches>{1, {}},
                                        {2, {2, 2, 2, 2, 2, 2, 2, 2}},
                                        {3, {3, 3, 3, 3, 3, 1}},
                                        {15, {15, 1}},
                                        {16, {16}},
                                        {99, {16}}}) {
    for (const auto& [lost, doubles] : {std::pair{0U, false}, {1, false}, {2, true}, {9, false}, {16, false}}) {
      if (batches.empty() && lost > 0) continue;
      const auto memory = make_host_memory();
      const Buffers buffers = memory->reserve(places * place_bytes);
      LosingDriver driver(lost, doubles);
      std::vector<Series> all(1);
      all[0].name = "series";
      all[0].driver = &driver;
      all[0].verifier = memory.get();
      all[0].view = {buffers.send, buffers.recv, bytes};
      all[0].buffer_bytes = places * place_bytes;
      LocalControl control(0, 1);
      Watchdog watchdog("test", 60);
      Sampler(control, sampling, workload, watchdog).measure(all);
      EXPECT(driver.batches == batches);
      EXPECT(all[0].mismatch.has_value() == (lost > 0) && (all[0].ended_by == EndedBy::failure) == (lost > 0));
      EXPECT(!all[0].mismatch || all[0].mismatch->offset_bytes == 0);
      EXPECT(all[0].messages_verified == 2 * (all[0].first_samples.size() + (batches.empty() ? 0 : 16)));
    }
  }
}

}  // namespace

int main() {
  what_is_sent_is_written_once_without_verification();
  every_message_is_checked_once();
  the_first_batch_is_the_cold_one();
  a_long_first_batch_is_not_ended();
  a_long_first_fill_is_not_ended();
  Sampling adaptive;
  adaptive.point_time_s = 1e-3;
  adaptive.min_visits = 1;
  adaptive.size_time_s = 0.02;
  a_slow_series_is_skipped_at_the_next_size(adaptive, "3");
  without_a_limit_nothing_is_skipped(adaptive);
  Sampling fixed = adaptive;
  fixed.fixed = true;
  fixed.warmup = 1;
  fixed.iterations = 2;
  a_slow_series_is_skipped_at_the_next_size(fixed, "3");
  return test::finish();
}
