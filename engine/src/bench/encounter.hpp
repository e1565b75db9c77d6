// Two ranks of a matrix that meet: everything that the plan wants to know of the pair.
#pragma once

#include <vector>

#include "../measure/point.hpp"
#include "../measure/watchdog.hpp"
#include "../record/json.hpp"
#include "lineup.hpp"
#include "pair_agreement.hpp"
#include "patience.hpp"

namespace volley {

// One exercise at one message size: a matrix of its own for each transport.
struct Sheet {
  Benchmark benchmark;
  Exercise exercise;
  std::uint64_t bytes;
};

// The sheets of a plan, ping-pongs first.
[[nodiscard]] std::vector<Sheet> sheets_of(const Plan& plan);

// A result has `transports`, what the pair can use, and `cells`: those of the first sheet, one a transport, then those
// of the next. All of it is plain JSON, because it travels to the first rank.
[[nodiscard]] Json skipped_result(const Plan& plan, const std::vector<Sheet>& sheets, int second,
                                  const std::string& reason);

class Encounter {
 public:
  // Collective over the two ranks; nobody else need know.
  Encounter(const Context& context, const Plan& plan, const std::vector<Sheet>& sheets, int first, int second,
            Watchdog& watchdog);

  // Measures every sheet while nobody else does; complete on the first of the two. Collective over the two.
  [[nodiscard]] Json isolated();

  // Measures every sheet while all other pairs of the round do: they begin a transport of a sheet together, and whoever
  // has done goes on, unrecorded, until all have. Collective over the world, with `sit_out` for who has no opponent.
  [[nodiscard]] Json loaded(const Context& context, const Patience& patience);

 private:
  [[nodiscard]] std::vector<Point> points_of(const Sheet& sheet);
  void keep_busy(const Exercise& exercise, Point& point, MPI_Request& all_done, const Patience& patience);
  [[nodiscard]] Json finished(const Json& cells);

  const Plan& plan_;
  const std::vector<Sheet>& sheets_;
  Watchdog& watchdog_;
  Pair pair_;
  PairAgreement agreement_;
  Lineup lineup_;
};

// The part of a rank that rests in a round of `Encounter::loaded`.
void sit_out(const Plan& plan, const std::vector<Sheet>& sheets, const Patience& patience);

}  // namespace volley
