// Which series of a message size the sampler skips because they would take too long, how long the first one may be,
// what a point's time is charged with, what a visit begins with, and that every message after the samples is checked.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "expect.hpp"
#include "faults/faults.hpp"
#include "measure/sampler.hpp"
#include "measure/series.hpp"

using namespace volley;

namespace {

constexpr double long_exchange_s = 5e-3;

// Moves nothing; an exchange takes at least so long.
class PausingDriver final : public Driver {
 public:
  explicit PausingDriver(std::chrono::milliseconds pause) : pause_(pause) {}
  void run(const View&, std::uint64_t count, const std::optional<Window>& window) override {
    for (std::uint64_t i = 0; !window && i < count; ++i) std::this_thread::sleep_for(pause_);
  }

 private:
  std::chrono::milliseconds pause_;
};

Workload with_at_most(std::uint64_t counts, Workload workload = round_trip_workload()) {
  workload.max_counts = counts;
  return workload;
}

Sampling with_point_time(double seconds) {
  Sampling sampling;
  sampling.point_time_s = seconds;
  return sampling;
}

// A sampler, and what it works with.
struct Setup {
  explicit Setup(const Sampling& how, const Workload& what = with_at_most(1000), double watchdog_s = 60)
      : sampling(how), workload(what), watchdog("test", watchdog_s) {}
  LocalControl control{0, 1};
  Sampling sampling;
  Workload workload;
  Watchdog watchdog;
  Sampler sampler{control, sampling, workload, watchdog};
};

std::vector<Series> one_series(Driver& driver, std::size_t bytes, bool fresh = false) {
  std::vector<Series> all(1);
  all[0].name = "series";
  all[0].driver = &driver;
  all[0].view.bytes = bytes;
  all[0].fresh = fresh;
  return all;
}

std::vector<Series> measured(Sampler& sampler, const std::vector<Driver*>& drivers, std::size_t bytes,
                             double left_s = std::numeric_limits<double>::infinity()) {
  std::vector<Series> all(drivers.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].name = "series " + std::to_string(i);
    all[i].driver = drivers[i];
    all[i].view.bytes = bytes;
  }
  sampler.measure(all, left_s);
  return all;
}

void a_slow_series_is_skipped_at_the_next_size(const Sampling& sampling, const char* exchanges) {
  PausingDriver slow(std::chrono::milliseconds(6));
  PausingDriver fast(std::chrono::milliseconds(0));
  Workload workload = with_at_most(1000);
  workload.limits.long_exchange_s = long_exchange_s;
  Setup setup(sampling, workload);
  for (const auto& series : measured(setup.sampler, {&slow, &fast}, 1024)) EXPECT(series.skipped.empty());
  const auto next = measured(setup.sampler, {&slow, &fast}, 4096);
  EXPECT(next[0].skipped.find(std::string(exchanges) + " round trips exceed the limit of ") == 0);
  EXPECT(next[0].skipped.find("0.01 s for each transport (0.02 s for this size)") != std::string::npos);
  EXPECT(next[0].first_samples.empty() && next[0].ended_by == EndedBy::open);
  EXPECT(next[1].skipped.empty() && !next[1].first_samples.empty());
  for (const auto& series : measured(setup.sampler, {&slow, &fast}, 1)) EXPECT(series.skipped.empty());
}

void a_series_for_which_no_time_is_left_is_skipped(const Sampling& sampling) {
  PausingDriver slow(std::chrono::milliseconds(6));
  PausingDriver fast(std::chrono::milliseconds(0));
  Setup setup(sampling);
  for (const auto& series : measured(setup.sampler, {&slow, &fast}, 1 << 16, 10)) EXPECT(series.skipped.empty());
  const auto longer = measured(setup.sampler, {&slow, &fast}, 1 << 26, 10);  // 1024 times as long: 36 s
  EXPECT(longer[0].skipped == budget_reason && longer[0].first_samples.empty());
  EXPECT(longer[1].skipped.empty() && !longer[1].first_samples.empty());
  for (const auto& series : measured(setup.sampler, {&slow, &fast}, 1, 10)) EXPECT(series.skipped.empty());
  for (const auto& series : measured(setup.sampler, {&slow, &fast}, 1, 0)) EXPECT(series.skipped == budget_reason);
}

// Its first exchange takes long, as that of NCCL, which connects in it.
class ConnectingDriver final : public Driver {
 public:
  void run(const View&, std::uint64_t count, const std::optional<Window>&) override {
    if (count > 0 && !std::exchange(connected_, true)) std::this_thread::sleep_for(std::chrono::seconds(1));
    else std::this_thread::sleep_for(count * std::chrono::milliseconds(1));
  }

 private:
  bool connected_ = false;
};

void a_cold_exchange_is_not_expected_again(const Sampling& sampling) {
  ConnectingDriver driver;
  Setup setup(sampling);
  const auto measured_once = [&](bool fresh, double left_s) {
    auto all = one_series(driver, 1024, fresh);
    setup.sampler.measure(all, left_s);
    return all[0];
  };
  for (const bool fresh : {true, false}) {
    const Series series = measured_once(fresh, fresh ? 10 : 0.9);
    EXPECT(series.skipped.empty() && !series.first_samples.empty());
    EXPECT(series.cold_s.has_value() == fresh && (series.cold_elapsed_s >= 1) == fresh);
    if (fresh) EXPECT(measured_once(true, 0.9).skipped == budget_reason);  // fresh buffers would connect again
  }
}

void without_a_limit_nothing_is_skipped(Sampling sampling) {
  sampling.size_time_s.reset();
  PausingDriver slow(std::chrono::milliseconds(6));
  Workload workload = round_trip_workload();
  workload.limits.long_exchange_s = long_exchange_s;
  Setup setup(sampling, workload);
  for (const std::size_t bytes : {1, 1 << 20}) EXPECT(measured(setup.sampler, {&slow}, bytes)[0].skipped.empty());
}

// Notes how many exchanges each batch has.
class CountingDriver final : public Driver {
 public:
  void run(const View&, std::uint64_t count, const std::optional<Window>&) override { batches.push_back(count); }
  std::vector<std::uint64_t> batches;
};

// Nothing may communicate before the exchange that is called cold: not even an empty batch, which does in one-sided
// MPI.
TEST(the_first_batch_is_the_cold_one) {
  for (const bool fixed : {false, true}) {
    Sampling sampling = with_point_time(1e-3);
    sampling.fixed = fixed;
    sampling.warmup = 0;
    Setup setup(sampling, with_at_most(10));
    CountingDriver driver;
    auto all = one_series(driver, 8, true);
    setup.sampler.measure(all);
    EXPECT(driver.batches.front() == 1 && all[0].cold_s && all[0].empty_s);
    EXPECT(std::ranges::count(driver.batches, 0U) == setup.workload.limits.empty_samples);
  }
}

// The first exchange of a large message takes longer than the watchdog waits. If it ended it, so would this program.
TEST(a_long_first_batch_is_not_ended) {
  Sampling sampling;
  sampling.fixed = true;
  sampling.warmup = 0;
  sampling.iterations = 1;
  PausingDriver slow(std::chrono::milliseconds(1200));
  Setup setup(sampling, round_trip_workload(), 0.5);
  EXPECT(measured(setup.sampler, {&slow}, std::size_t{1} << 30)[0].first_samples.size() == 1);
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
TEST(a_long_first_fill_is_not_ended) {
  PausingDriver fast(std::chrono::milliseconds(0));
  for (const bool fixed : {false, true}) {
    Sampling sampling = with_point_time(1e-3);
    sampling.fixed = fixed;
    sampling.warmup = 0;
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
    Setup(sampling, with_at_most(1000), 0.5).sampler.measure(all);
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
TEST(what_is_sent_is_written_once_without_verification) {
  PausingDriver fast(std::chrono::milliseconds(0));
  for (const Workload& workload : {round_trip_workload(), window_workload({})}) {
    for (const bool fixed : {false, true}) {
      Sampling sampling = with_point_time(1e-3);
      sampling.fixed = fixed;
      CountingVerifier verifier;
      auto all = one_series(fast, 100, true);
      all[0].verifier = &verifier;
      all[0].verify = false;
      all[0].buffer_bytes = 1000;
      Setup setup(sampling, with_at_most(1000, workload));
      setup.control.between(0, 0);
      setup.sampler.measure(all);
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
  void run(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
    const auto in_flight = messages_per_count(window);
    if (view.stride > 0) passes.emplace_back(count, in_flight);
    for (std::uint64_t i = 0; i < count * in_flight; ++i) {
      const View message = (i < (count - 1) * in_flight ? view : view.last()).message(i);
      if (view.stride == 0 || ++checked_ != lost_) std::memcpy(message.recv, message.send, message.bytes);
      else if (doubles_) std::memcpy(message.recv, message.send - view.stride, message.bytes);
    }
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> passes;  // counts, messages in flight

 private:
  std::uint64_t lost_;
  bool doubles_;
  std::uint64_t checked_ = 0;
};

// Copies each message from its place to its place; or to the one before, or only those of the first batches.
class TurningDriver final : public Driver {
 public:
  enum class Fault { none, misplaces, stops };
  explicit TurningDriver(Fault fault) : fault_(fault) {}
  void run(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
    const std::uint64_t messages = count * messages_per_count(window);
    const std::uint64_t last = messages - messages_per_count(window);
    for (std::uint64_t i = 0; i < messages; ++i) {
      const View message = (i < last ? view : view.last()).message(i);
      places.push_back(message.place);
      if (fault_ == Fault::stops && places.size() > 3000) continue;
      std::byte* const to = fault_ == Fault::misplaces ? message.message(message.last_place).recv : message.recv;
      std::memcpy(to, message.send, message.bytes);
    }
  }
  std::vector<std::uint64_t> places;

 private:
  Fault fault_;
};

// With several places each message has the next one, in one batch after the other, and the last of each is checked.
TEST(messages_take_turns_at_places) {
  constexpr std::size_t bytes = 100;
  constexpr std::size_t room = std::size_t{20} << 10;
  const auto memory = make_host_memory();
  for (const Workload& workload :
       {round_trip_workload(), window_workload({.messages = 4, .direction = Direction::bi})}) {
    for (const auto fault :
         {TurningDriver::Fault::none, TurningDriver::Fault::misplaces, TurningDriver::Fault::stops}) {
      const Buffers buffers = memory->reserve(room);
      TurningDriver driver(fault);
      auto all = one_series(driver, bytes, true);
      all[0].verifier = memory.get();
      all[0].view = with_places({buffers.send, buffers.recv, bytes}, room);
      EXPECT(all[0].view.last_place == 7 && 8 * all[0].view.stride <= room);
      Setup(with_point_time(1e-3), with_at_most(1000, workload)).sampler.measure(all);
      EXPECT(all[0].mismatch.has_value() == (fault != TurningDriver::Fault::none));
      EXPECT(driver.places.size() > 3000);
      for (std::size_t i = 0; i < driver.places.size(); ++i) EXPECT(driver.places[i] == i % 8);
    }
  }
}

// One series on buffers with room for this many places.
Series measured_once(Driver& driver, const Workload& workload, std::size_t bytes, std::size_t places,
                     double left_s = std::numeric_limits<double>::infinity()) {
  const std::size_t room = places * pass_stride(bytes);
  const auto memory = make_host_memory();
  const Buffers buffers = memory->reserve(std::max(room, bytes));
  auto all = one_series(driver, bytes);
  all[0].verifier = memory.get();
  all[0].view = {buffers.send, buffers.recv, bytes};
  all[0].buffer_bytes = room;
  Setup(with_point_time(1e-3), with_at_most(1000, workload)).sampler.measure(all, left_s);
  return all[0];
}

// After the samples one call makes several round trips or windows, as many as there is room for, and each message of
// the call is checked.
TEST(every_message_is_checked_once) {
  constexpr std::size_t bytes = 100;
  using Passes = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  struct Case {
    Workload workload;
    std::size_t places;
    Passes passes;
  };
  const Workload windows = window_workload({.messages = 4, .direction = Direction::bi});
  for (const auto& [workload, places, passes] :
       {Case{round_trip_workload(), 1, {}}, Case{round_trip_workload(), 2, {{2, 1}}},
        Case{round_trip_workload(), 15, {{15, 1}}}, Case{round_trip_workload(), 99, {{16, 1}}}, Case{windows, 1, {}},
        Case{windows, 2, {{2, 1}}}, Case{windows, 5, {{2, 2}}}, Case{windows, 8, {{2, 4}}},
        Case{windows, 99, {{3, 4}}}}) {
    const std::uint64_t in_pass = passes.empty() ? 0 : passes[0].first * passes[0].second;
    for (const std::uint64_t lost :
         std::set<std::uint64_t>{0, std::min<std::uint64_t>(in_pass, 1), in_pass / 2, in_pass}) {
      for (const bool doubles : {false, true}) {
        if (doubles && lost < 2) continue;
        LosingDriver driver(lost, doubles);
        const Series found = measured_once(driver, workload, bytes, places);
        EXPECT(driver.passes == passes);
        EXPECT(found.mismatch.has_value() == (lost > 0) && (found.ended_by == EndedBy::failure) == (lost > 0));
        EXPECT(!found.mismatch || found.mismatch->offset_bytes == 0);
        EXPECT(found.messages_verified == 2 * (found.first_samples.size() + in_pass));
        EXPECT(found.pass.counts * found.pass.in_flight == in_pass);
      }
    }
  }
}

// The 20,000th of short messages, and one after 65,536, where 16-bit numbers begin again: as many as there is time for.
TEST(a_late_short_message_is_checked) {
  for (const std::size_t bytes : {1, 8, 64}) {
    for (const Workload& workload : {round_trip_workload(), window_workload({.messages = 64})}) {
      for (const std::uint64_t lost : {0, 20'000, 65'600}) {
        Workload timed = workload;
        timed.limits.first_pass_s = 60;
        LosingDriver driver(lost, false);
        const Series found = measured_once(driver, timed, bytes, pass_short_messages);
        EXPECT(found.mismatch.has_value() == (lost > 0));
        EXPECT(!found.mismatch || (found.mismatch->offset_bytes == 0 && found.mismatch->wrong_bytes == bytes));
        EXPECT(found.mismatch || found.pass.counts * found.pass.in_flight > 65'600);
      }
    }
  }
  Workload trips = round_trip_workload();
  trips.limits.first_pass_s = 60;
  trips.limits.pass_s = 0;
  LosingDriver sound(0, false);
  for (const std::size_t bytes : {8, 4096}) {  // at the next size only the first pass is shorter
    const Series found = measured_once(sound, trips, bytes, 99);
    EXPECT((found.long_pass_s > 0) == (bytes == 8) && found.long_pass_s < found.elapsed_s);
  }
  const Series late = measured_once(sound, trips, 8, pass_short_messages, /*left_s*/ 1e-6);
  EXPECT(late.visits.size() == 1 && late.pass.counts == pass_round_trips);
  const auto memory = make_host_memory();
  FaultyDriver wrong(sound, Fault::wrap, memory.get(), {});
  EXPECT(measured_once(wrong, trips, 8, pass_short_messages).mismatch.has_value());
  EXPECT(pass_of(trips, 8, usual_buffer_bytes, 1e-3, 0.1).counts == 100);
  EXPECT(pass_of(trips, 8, usual_buffer_bytes, 1, 0.1).counts == pass_round_trips);
  EXPECT(pass_of(trips, 4096, usual_buffer_bytes, 1e-6, 0.1).counts == pass_round_trips);
}

// The samples come first, and no pass is made before it is asked for.
TEST(sampling_and_verifying_are_two_steps) {
  LosingDriver driver(1, false);
  const auto memory = make_host_memory();
  const Buffers buffers = memory->reserve(usual_buffer_bytes);
  auto all = one_series(driver, 100);
  all[0].verifier = memory.get();
  all[0].view = {buffers.send, buffers.recv, 100};
  all[0].buffer_bytes = buffers.capacity;
  Setup setup(with_point_time(1e-3));
  setup.sampler.sample(all);
  EXPECT(driver.passes.empty() && !all[0].first_samples.empty() && !all[0].mismatch);
  setup.sampler.verify(all);
  EXPECT(driver.passes.size() == 1 && all[0].mismatch && all[0].ended_by == EndedBy::failure);
}

// Samples are charged, and not the cold exchange: the point is sampled as long as any other.
TEST(a_cold_exchange_is_not_charged) {
  ConnectingDriver driver;
  Sampling sampling = with_point_time(0.5);  // several visits also where a pause of 1 ms takes ten
  sampling.ci = 1e-12;
  sampling.min_visits = 1;
  auto all = one_series(driver, 8, true);
  Setup(sampling).sampler.measure(all);
  EXPECT(all[0].cold_elapsed_s >= 1 && all[0].sampling_s >= 0.5 && all[0].visits.size() > 1);
}

// Nothing is written to the send buffer between the first calibration and the pass, whether a series is alone or beside
// others, and however many samples there are.
TEST(a_visit_begins_the_same_way_beside_others) {
  PausingDriver fast(std::chrono::milliseconds(0));
  Sampling sampling;
  sampling.min_visits = 20;
  for (const std::size_t series : {1, 3}) {
    CountingVerifier verifier;
    const auto messages = std::make_shared<MessageCheck>();
    Setup setup(sampling);
    for (const std::size_t bytes : {8, 16}) {
      std::vector<Series> all(series);
      for (auto& each : all) {
        each.driver = &fast;
        each.verifier = &verifier;
        each.messages = messages;
        each.view.bytes = bytes;
      }
      setup.sampler.measure(all);
      EXPECT(all[0].first_samples.size() > last_messages_per_fill);
      EXPECT(verifier.fills == (bytes == 8 ? 1 : 2) && verifier.poisons == verifier.checks);
    }
  }
}

// A clock of a model: a batch of n exchanges takes `once_s` + n * `each_s`, an empty one nothing.
class ModelDriver final : public Driver {
 public:
  void run(const View&, std::uint64_t count, const std::optional<Window>&) override { batch = count; }
  std::uint64_t batch = 0;
};
class ModelControl : public LocalControl {
 public:
  ModelControl(const ModelDriver& driver, double once_s, double each_s)
      : LocalControl(0, 1), driver_(driver), once_s_(once_s), each_s_(each_s) {}
  [[nodiscard]] Elapsed elapsed(const Span&) override {
    return {.seconds = once_s_ + each_s_ * static_cast<double>(driver_.batch)};
  }

 private:
  const ModelDriver& driver_;
  const double once_s_;
  const double each_s_;
};

TEST(the_cost_of_a_batch_is_at_most_half_a_percent) {
  constexpr double once_s = 50e-6;
  for (const double each_s : {1e-6, 1e-3, 5e-3}) {
    for (const bool costs : {true, false}) {
      ModelDriver driver;
      ModelControl control(driver, once_s, each_s);
      Watchdog watchdog("test", 60);
      const Workload workload = round_trip_workload();
      auto all = one_series(driver, 8);
      all[0].once_a_batch = costs;
      Sampler(control, Sampling{}, workload, watchdog).measure(all);
      const double sample_s = once_s + each_s * static_cast<double>(all[0].count);
      EXPECT(!costs || once_s / sample_s < 0.0051);
      EXPECT(costs == (*all[0].empty_s > 0.99 * once_s));
    }
  }
}

// The first batches take 10 ms longer than their exchanges: another program has the core.
class InterruptedControl final : public ModelControl {
 public:
  InterruptedControl(const ModelDriver& driver, int batches) : ModelControl(driver, 0, 1e-6), left_(batches) {}
  [[nodiscard]] Elapsed elapsed(const Span& mine) override {
    return {.seconds = ModelControl::elapsed(mine).seconds + (left_-- > 0 ? 10e-3 : 0)};
  }

 private:
  int left_;
};

// Where every batch of the calibration is interrupted, one exchange of 1 µs looks long enough. No such sample is kept,
// also where the first visits were interrupted, too.
TEST(samples_that_are_too_short_are_dropped) {
  for (const auto& [visits, interrupted] : {std::pair{1, 5}, {3, 5}, {3, 7}, {3, 9}}) {
    ModelDriver driver;
    InterruptedControl control(driver, interrupted);
    Watchdog watchdog("test", 60);
    const Workload workload = round_trip_workload();
    Sampling sampling = with_point_time(1e-3);
    sampling.min_visits = visits;
    auto all = one_series(driver, 8);
    Sampler(control, sampling, workload, watchdog).measure(all);
    const Series& series = all[0];
    EXPECT(static_cast<double>(series.count) * 1e-6 * 8 > workload.limits.sample_s);
    EXPECT(series.visits.size() == static_cast<std::size_t>(visits) && series.work_s.size() == series.visits.size());
    EXPECT(series.messages_timed == 2 * series.count * series.first_samples.size());
  }
}

// Its batches have long beginnings; the stamps leave them out. The exchanges of a batch take 1 µs, 2 µs, …
class StampingDriver final : public Driver, public Stamps {
 public:
  void run(const View&, std::uint64_t count, const std::optional<Window>&) override { batches.push_back(count); }
  void take() override { taken = true; }
  std::vector<double> singles_s() override {
    std::vector<double> singles_s;
    for (std::uint64_t i = 2; taken && i < batches.back(); ++i) singles_s.push_back(1e-6 * static_cast<double>(i));
    return singles_s;
  }
  std::vector<std::uint64_t> batches;
  bool taken = false;
};

// With stamps a sample is a single exchange, of batches as long as others.
TEST(stamps_are_samples) {
  StampingDriver driver;
  auto all = one_series(driver, 8);
  Series& series = all[0];
  series.stamps = &driver;
  Sampling sampling;
  sampling.tail = true;
  Setup(sampling, round_trip_workload()).sampler.measure(all);
  const std::size_t batches = series.first_samples.size() / (Stamps::most_counts - 2);
  EXPECT(series.count == Stamps::most_counts && series.sampled() == 1);
  EXPECT(batches > 0 && series.first_samples.size() == batches * (Stamps::most_counts - 2));
  EXPECT(series.first_samples.front() == 1e-6 && series.first_samples.back() == 1e-6 * (Stamps::most_counts - 1) / 2);
  EXPECT(std::accumulate(series.visits.begin(), series.visits.end(), std::size_t{0}) == series.first_samples.size());
  EXPECT(series.messages_timed == 2 * batches * Stamps::most_counts);
}

// All ends make the same permutation, every order is equally frequent, and each series follows each other one.
TEST(rounds_are_permuted) {
  std::map<std::vector<std::size_t>, int> found;
  constexpr std::uint64_t rounds = 6000;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto order = order_of_round(3, round);
    EXPECT(std::set(order.begin(), order.end()) == (std::set<std::size_t>{0, 1, 2}));
    EXPECT(order == order_of_round(3, round));
    ++found[order];
  }
  EXPECT(found.size() == 6);
  for (const auto& [order, times] : found) EXPECT(times > 850 && times < 1150);  // 5 standard deviations
  EXPECT(order_of_round(0, 1).empty());
}

// Long messages are checked as well, as many as show that neither only the first nor only the last window is made.
TEST(long_messages_are_checked) {
  const Workload windows = window_workload({.messages = 64, .direction = Direction::uni});
  constexpr std::size_t mib = std::size_t{1} << 20;
  struct Case {
    std::size_t bytes;
    std::uint64_t counts;
    std::uint64_t in_flight;
  };
  for (const auto& [bytes, counts, in_flight] :
       {Case{8, 3, 64}, Case{mib, 3, 64}, Case{4 * mib, 2, 32}, Case{1024 * mib, 2, 2}}) {
    const std::size_t room = bytes_of_pass(bytes);
    EXPECT(room <= std::max(std::size_t{257} * mib, 4 * pass_stride(bytes)) && room % pass_stride(bytes) == 0);
    const Pass pass = pass_of(windows, bytes, room);
    EXPECT(pass.counts == counts && pass.in_flight == in_flight);
  }
  EXPECT(pass_of(round_trip_workload(), 1024 * mib, bytes_of_pass(1024 * mib)).counts == 2);
  // Each that shares the windows has one, as long as there is room for a message of each.
  for (const std::uint64_t sharers : {2, 8, 100}) {
    for (const std::size_t bytes : {std::size_t{8}, mib, 4 * mib, 1024 * mib}) {
      const Pass pass = pass_of(windows, bytes, bytes_of_pass(bytes), 0, 0, sharers);
      const std::uint64_t places = std::min(bytes_of_pass(bytes) / pass_stride(bytes), usual_pass_bytes / bytes);
      EXPECT(pass.counts >= std::min(sharers, std::max<std::uint64_t>(places, 4)) && pass.in_flight > 0);
    }
  }
  EXPECT(pass_of(round_trip_workload(), 0, bytes_of_pass(0)).counts == pass_round_trips);
}

// A driver that makes only the first or only the last count of a call has the right message in every sample.
TEST(a_call_cut_short_is_found) {
  for (const Workload& workload : {round_trip_workload(), window_workload({.messages = 4})}) {
    for (const Fault fault : {Fault::none, Fault::early, Fault::late}) {
      LosingDriver sound(0, false);
      const auto memory = make_host_memory();
      FaultyDriver driver(sound, fault, memory.get(), {});
      EXPECT(measured_once(driver, workload, 100, 99).mismatch.has_value() == (fault != Fault::none));
    }
  }
}

TEST(what_would_take_too_long_is_skipped) {
  Sampling adaptive = with_point_time(1e-3);
  adaptive.min_visits = 1;
  adaptive.size_time_s = 0.02;
  a_slow_series_is_skipped_at_the_next_size(adaptive, "3");
  without_a_limit_nothing_is_skipped(adaptive);
  adaptive.size_time_s.reset();
  a_series_for_which_no_time_is_left_is_skipped(adaptive);
  a_cold_exchange_is_not_expected_again(adaptive);
  adaptive.size_time_s = 0.02;
  Sampling fixed = adaptive;
  fixed.fixed = true;
  fixed.warmup = 1;
  fixed.iterations = 2;
  a_slow_series_is_skipped_at_the_next_size(fixed, "3");
}

}  // namespace

int main() { return test::run_all(); }
