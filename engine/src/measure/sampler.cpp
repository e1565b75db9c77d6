#include "sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sample.hpp"
#include "stopping.hpp"

namespace volley {

namespace {

// Clock and call overhead (the empty sample) may be this share of a sample at most.
constexpr double overhead_share = 0.005;
constexpr int most_samples_a_visit = 10;
// A block of glibc's malloc begins this far behind a page boundary when it has pages of its own.
constexpr std::size_t malloc_header_bytes = 16;
// With one exchange a sample, percentiles are asked for: fewer samples than this have no 99th.
constexpr std::size_t tail_samples = 1000;

}  // namespace

double clock_read_s() {
  std::vector<double> readings;
  for (int i = 0; i < 101; ++i) {
    readings.push_back(timed([](std::uint64_t) {}, 0));
  }
  return median(readings);
}

Sampler::Sampler(const Endpoints& pair, Agreement& agreement, const Plan& plan, const Exercise& exercise,
                 Watchdog& watchdog)
    : pair_(pair), agreement_(agreement), plan_(plan), exercise_(exercise), watchdog_(watchdog) {}

void Sampler::measure(std::vector<Point>& points) {
  const auto is_open = [](const Point& point) { return point.open(); };
  latest_ = nullptr;
  for (auto& point : points) {
    if (point.open()) begin(point);
  }
  for (int round = 0; std::any_of(points.begin(), points.end(), is_open); ++round) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      // Another transport goes first in every round: a drift of the machine meets all alike.
      Point& point = points[(i + static_cast<std::size_t>(round)) % points.size()];
      if (point.open()) visit(point);
    }
    settle(points, round + 1);
  }
  for (const auto& point : points) {
    if (point.count > 0) last_[point.entry] = {point.view.bytes, point.count, point.count_s};
  }
}

void Sampler::begin(Point& point) {
  const auto begun = Clock::now();
  watch(point);
  point.transport->prepare(point.view);
  std::vector<double> empty;
  for (int i = 0; i < exercise_.pace.empty_samples; ++i) empty.push_back(batch(point, point.view, 0));
  point.empty_s = median(empty);
  if (!plan_.sampling.fixed) {
    if (point.fresh) point.cold_s = sample(point, 0, 1) / exercise_.parts;
    if (!known_already(point)) calibrate(point);
  }
  point.elapsed_s += seconds_since(begun);
}

// Where one exchange of a smaller message makes a sample, one of this makes one too, and takes as much longer. Where
// the most that a sample may hold were held by one of the same message (between two others), they are again.
bool Sampler::known_already(Point& point) {
  const auto found = last_.find(point.entry);
  if (found == last_.end() || plan_.sampling.tail) return false;
  const auto& [bytes, count, count_s] = found->second;
  const bool lasts = count == 1 && bytes <= point.view.bytes && count_s >= 2 * exercise_.pace.sample_s;
  if (!lasts && !(count == exercise_.most_counts && bytes == point.view.bytes)) return false;
  point.count = count;
  point.count_s = count_s * static_cast<double>(point.view.bytes) / static_cast<double>(bytes);
  return true;
}

// Finds how many counts make a sample. Both ranks follow the first rank's clock.
void Sampler::calibrate(Point& point) {
  const double target_s = plan_.sampling.tail ? 0 : std::max(*point.empty_s / overhead_share, exercise_.pace.sample_s);

  struct Step {
    std::uint64_t count;
    double count_s;
    bool done;
  } step{1, 0, false};
  while (!step.done) {
    const double elapsed_s = shortest_batch_s(point, step.count);
    step.count_s = std::max(elapsed_s, 1e-9) / static_cast<double>(step.count);
    const double ideal = std::min(target_s / step.count_s, static_cast<double>(exercise_.most_counts));
    const auto wanted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(ideal)));
    // A short batch tells little of a long one: grow at most sixteenfold at a time.
    step.done = wanted <= 2 * step.count;
    step.count = step.done ? wanted : std::min(wanted, 16 * step.count);
    step = agreement_.shared(step);
  }
  point.count = step.count;
  point.count_s = step.count_s;
}

// An interruption must not pass for a slow exchange: the shortest of up to ten batches, of fewer where they last.
double Sampler::shortest_batch_s(Point& point, std::uint64_t count) {
  double shortest_s = std::numeric_limits<double>::infinity();
  double spent_s = 0;
  const Pace& pace = exercise_.pace;
  const auto goes_on = [&](int repeat) {
    if (shortest_s > 2 * pace.lasting_exchange_s) return repeat < 1;  // nothing interrupts for so long
    return repeat < 2 || (repeat < pace.calibration_batches && shortest_s < pace.lasting_exchange_s) ||
           (repeat < 10 && spent_s < pace.calibration_s);
  };
  for (int repeat = 0; goes_on(repeat); ++repeat) {
    agreement_.ready();
    const double elapsed_s = agreement_.shared(batch(point, point.view, count));
    shortest_s = std::min(shortest_s, elapsed_s);
    spent_s += elapsed_s;
  }
  return shortest_s;
}

bool Sampler::lasting(const Point& point) const { return point.count_s > exercise_.pace.lasting_exchange_s; }

// Samples of one visit. However few the visits, an interval of the median must exist after the last of them.
int Sampler::burst(const Point& point) const {
  const int visits = plan_.sampling.min_visits;
  const int fewest = (static_cast<int>(fewest_samples) + visits - 1) / visits;
  if (lasting(point)) return fewest;
  const int most = plan_.sampling.tail ? 10 * most_samples_a_visit : most_samples_a_visit;
  const double sample_s = point.count_s * static_cast<double>(point.count);
  return std::max(fewest, static_cast<int>(std::min<double>(most, exercise_.pace.visit_s / sample_s)));
}

// Other transports were visited since this one began.
void Sampler::watch(const Point& point) {
  watchdog_.enter(std::string("transport ") + point.entry->name + ", pair " + std::to_string(pair_.ranks[0]) + "-" +
                  std::to_string(pair_.ranks[1]) + ", " + std::to_string(point.view.bytes) + " B, " + exercise_.name);
}

void Sampler::visit(Point& point) {
  const auto begun = Clock::now();
  watch(point);
  if (plan_.sampling.fixed) {
    fixed_batch(point);
  } else {
    const int samples = burst(point);
    for (int i = 0; i < samples; ++i) {
      const bool follows = lasting(point) && latest_ == &point && point.repetition > 0;
      keep(point, follows ? next_sample(point) : sample(point, 1, point.count), point.count);
    }
  }
  point.elapsed_s += seconds_since(begun);
}

// The tutorial's measurement: `warmup` exchanges, then one clock pair around `iterations`, one buffer both ways.
// One buffer cannot show that the way back moved anything, for the answer is what was sent: one more exchange
// between separate buffers, outside the timing, shows that.
void Sampler::fixed_batch(Point& point) {
  const std::uint64_t iterations = plan_.sampling.iterations;
  std::uint64_t warmup = plan_.sampling.warmup;
  point.count = iterations;
  if (!exercise_.one_buffer) {
    keep(point, sample(point, warmup, iterations), iterations);
    return;
  }
  // malloc, from which the tutorial's buffer comes, puts its header in front of a block.
  std::byte* const place = point.view.send + (point.entry->memory == MemoryKind::host ? malloc_header_bytes : 0);
  const View one{place, place, point.view.bytes};
  if (point.fresh && warmup > 0) {
    agreement_.ready();
    point.cold_s = batch(point, one, 1) / exercise_.parts;
    --warmup;
  }
  agreement_.ready();
  const double warm_s = batch(point, one, warmup) / static_cast<double>(std::max<std::uint64_t>(warmup, 1));
  point.count_s = std::max(warm_s, exercise_.parts * point.cold_s.value_or(0));

  ++point.repetition;
  const std::uint64_t sent = seed(point, 0);
  if (point.memory != nullptr) {
    point.memory->poison(one.recv, one.bytes, sent);
    if (pair_.leads()) point.memory->fill(one.send, one.bytes, sent);
  }
  agreement_.ready();
  keep(point, batch(point, one, iterations), iterations);
  if (point.memory == nullptr) return;
  look_at(point, one.recv, sent);
  point.messages_verified += 1;
  sample(point, 0, 1);
}

// One sample: fresh contents, untimed exchanges that bring caches into the state of the steady exchange, poison on
// the receive side, the timed batch, and the check of its last message. Returns the seconds of the batch.
double Sampler::sample(Point& point, std::uint64_t untimed, std::uint64_t count) {
  ++point.repetition;
  write_contents(point);
  const View view = varied(point.view, count);
  if (untimed > 0) {
    agreement_.ready();
    batch(point, view, untimed);
  }
  write_poison(point, view);
  agreement_.ready();
  const double elapsed_s = batch(point, view, count);
  check_contents(point, view);
  return elapsed_s;
}

// Of several messages the last is another one: a batch that stops before it is caught. A message that is alone must
// have moved anyway, for its place was poisoned.
View Sampler::varied(View view, std::uint64_t count) {
  view.last_offset = count > 1 ? last_offset_bytes : 0;
  return view;
}

// One more sample right behind the last one of the same point, of an exchange whose buffers are far larger than what a
// cache would keep: no untimed exchange, and the message before, wrong in every byte, stands for the poison.
double Sampler::next_sample(Point& point) {
  const std::uint64_t before = seed(point, pair_.peer);
  ++point.repetition;
  write_contents(point);
  const View view = varied(point.view, point.count);
  if (!differ_in_every_byte(before, seed(point, pair_.peer)) || point.count > 1) write_poison(point, view);
  agreement_.ready();
  const double elapsed_s = batch(point, view, point.count);
  check_contents(point, view);
  return elapsed_s;
}

double Sampler::batch(Point& point, const View& view, std::uint64_t count) {
  watchdog_.progress(10 * point.count_s * static_cast<double>(count));
  latest_ = &point;
  point.transport->arm(view, count);
  const double elapsed_s = timed([&](std::uint64_t n) { exercise_.run(*point.transport, view, n); }, count);
  point.transport->disarm();
  return elapsed_s;
}

void Sampler::keep(Point& point, double elapsed_s, std::uint64_t count) {
  const double value = elapsed_s / static_cast<double>(count) / exercise_.parts;
  if (pair_.leads()) point.led.push_back(value);
  else if (exercise_.second_times) point.followed.push_back(value);
  point.messages_timed += count * (exercise_.messages[0] + exercise_.messages[1]);
}

std::uint64_t Sampler::seed(const Point& point, int direction) const {
  return seed_of({point.view.bytes, static_cast<std::uint64_t>(direction), point.repetition});
}

void Sampler::write_contents(Point& point) {
  if (point.memory == nullptr) return;
  point.memory->fill(point.view.send, point.view.bytes + last_offset_bytes, seed(point, pair_.self));
}

Contents Sampler::expected(const Point& point, const View& view) const {
  return {seed(point, pair_.peer), view.last_offset == 0 ? 0 : last_first_word};
}

void Sampler::write_poison(Point& point, const View& view) {
  if (point.memory == nullptr || exercise_.messages[static_cast<std::size_t>(pair_.peer)] == 0) return;
  point.memory->poison(view.recv, view.bytes, expected(point, view));
}

void Sampler::check_contents(Point& point, const View& view) {
  if (point.memory == nullptr) return;
  for (const auto moved : exercise_.messages) point.messages_verified += moved > 0 ? 1 : 0;
  if (exercise_.messages[static_cast<std::size_t>(pair_.peer)] == 0) return;
  look_at(point, view.recv, expected(point, view));
}

void Sampler::look_at(Point& point, const std::byte* message, const Contents& expected) {
  auto found = point.memory->check(message, point.view.bytes, expected);
  if (!found || point.mismatch) return;
  found->rank = pair_.ranks[static_cast<std::size_t>(pair_.self)];
  point.mismatch = found;
}

// At the end of a round: the first rank hears what the second found, decides which points end, and tells it.
void Sampler::settle(std::vector<Point>& points, int rounds) {
  for (auto& point : points) {
    if (!point.open()) continue;
    watchdog_.progress();
    collect_from_second(point);
    point.ended_by = agreement_.shared(pair_.leads() ? judged(point, rounds) : EndedBy::open);
  }
}

void Sampler::collect_from_second(Point& point) {
  struct Findings {
    std::uint64_t samples;
    bool wrong;
    Mismatch mismatch;
  } found{point.followed.size(), point.mismatch.has_value(), point.mismatch.value_or(Mismatch{})};
  found = agreement_.shared(found, 1);
  if (found.wrong && !point.mismatch) point.mismatch = found.mismatch;
  if (pair_.leads()) point.followed.resize(found.samples);
  agreement_.share(point.followed.data() + point.told, (found.samples - point.told) * sizeof(double), 1);
  point.told = found.samples;
}

EndedBy Sampler::judged(Point& point, int rounds) const {
  if (point.mismatch) return EndedBy::failure;
  if (plan_.sampling.fixed) return EndedBy::fixed;
  if (rounds < plan_.sampling.min_visits) return EndedBy::open;
  const auto within = [&](const std::vector<double>& times) { return interval_within(times, plan_.sampling.interval); };
  const auto both_within = [&] { return within(point.led) && (point.followed.empty() || within(point.followed)); };
  if (lasting(point)) return both_within() ? EndedBy::interval : EndedBy::few;
  const std::size_t enough = plan_.sampling.tail ? tail_samples : fewest_samples;
  if (point.led.size() >= std::max(point.next_look, enough)) {
    if (both_within()) return EndedBy::interval;
    point.next_look = point.led.size() + point.led.size() / 10;
  }
  return point.elapsed_s >= plan_.sampling.point_time_s ? EndedBy::time : EndedBy::open;
}

}  // namespace volley
