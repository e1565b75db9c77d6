// Takes samples: rounds over the transports of one message size, verification, and when to stop.
#pragma once

#include <map>
#include <vector>

#include "../job.hpp"
#include "../record/plan.hpp"
#include "agreement.hpp"
#include "point.hpp"
#include "watchdog.hpp"

namespace volley {

// What reading the clock twice takes, in seconds: a timed batch of nothing.
[[nodiscard]] double clock_read_s();

class Sampler {
 public:
  Sampler(const Endpoints& pair, Agreement& agreement, const Plan& plan, const Exercise& exercise, Watchdog& watchdog);

  // Measures every open point, all of the same message size, interleaved. Collective over the pair; results of both
  // ranks are complete on the first.
  void measure(std::vector<Point>& points);

 private:
  void begin(Point& point);
  bool known_already(Point& point);
  void calibrate(Point& point);
  double shortest_batch_s(Point& point, std::uint64_t count);
  void visit(Point& point);
  void watch(const Point& point);
  void fixed_batch(Point& point);
  void settle(std::vector<Point>& points, int rounds);

  double sample(Point& point, std::uint64_t untimed, std::uint64_t count);
  double next_sample(Point& point);
  double batch(Point& point, const View& view, std::uint64_t count);
  void keep(Point& point, double elapsed_s, std::uint64_t count);

  void write_contents(Point& point);
  void write_poison(Point& point, const View& view);
  void check_contents(Point& point, const View& view);
  void look_at(Point& point, const std::byte* message, const Contents& expected);
  [[nodiscard]] static View varied(View view, std::uint64_t count);
  [[nodiscard]] Contents expected(const Point& point, const View& view) const;

  void collect_from_second(Point& point);
  [[nodiscard]] EndedBy judged(Point& point, int rounds) const;
  [[nodiscard]] std::uint64_t seed(const Point& point, int direction) const;
  [[nodiscard]] bool lasting(const Point& point) const;
  [[nodiscard]] int burst(const Point& point) const;

  const Endpoints& pair_;
  Agreement& agreement_;
  const Plan& plan_;
  const Exercise& exercise_;
  Watchdog& watchdog_;

  const Point* latest_ = nullptr;  // whose message was exchanged last

  // What the last message size of a transport came to.
  struct Settled {
    std::size_t bytes;
    std::uint64_t count;
    double count_s;
  };
  std::map<const TransportEntry*, Settled> last_;
};

}  // namespace volley
