#include "points.hpp"

#include <algorithm>

#include "../measure/stopping.hpp"
#include "facts.hpp"

namespace volley {

namespace {

const char* name_of(EndedBy ended_by) {
  switch (ended_by) {
    case EndedBy::interval: return "interval";
    case EndedBy::time: return "time";
    case EndedBy::few: return "few";
    case EndedBy::fixed: return "fixed";
    case EndedBy::failure: return "failure";
    case EndedBy::open: break;
  }
  return nullptr;
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::string failure_sentence(const Mismatch& mismatch) {
  return "the message that rank " + std::to_string(mismatch.rank) + " received differs from what was sent in " +
         std::to_string(mismatch.wrong_bytes) + (mismatch.wrong_bytes == 1 ? " byte" : " bytes") +
         ", first at offset " + std::to_string(mismatch.offset_bytes);
}

const char* status_of(const Point& point) {
  if (!point.skipped.empty()) return "skipped";
  return point.mismatch ? "failed" : "ok";
}

Json reason_of(const Point& point) {
  if (!point.skipped.empty()) return point.skipped;
  if (point.mismatch) return failure_sentence(*point.mismatch);
  return nullptr;
}

// What both benchmarks' records begin with.
Json head(const char* record, const Endpoints& pair, const Point& point) {
  return {{"record", record},          {"version", record_version},      {"transport", point.entry->name},
          {"ranks", pair.ranks},       {"size_bytes", point.view.bytes}, {"status", status_of(point)},
          {"reason", reason_of(point)}};
}

// What all end with.
void add_end(Json& record, const Point& point) {
  const char* ended_by = name_of(point.ended_by);
  record["ended_by"] = ended_by == nullptr ? Json(nullptr) : Json(ended_by);
  record["messages_timed"] = point.messages_timed;
  record["messages_verified"] = point.messages_verified;
  record["mismatch"] = point.mismatch ? to_json(*point.mismatch) : Json(nullptr);
  record["elapsed_s"] = point.elapsed_s;
}

void add_tail(Json& record, const Point& point) {
  record["empty_sample_s"] = optional_json(point.empty_s);
  add_end(record, point);
}

// Seconds of each sample; both directions at once take as long as the slower of them.
std::vector<double> times_of(const Point& point) {
  std::vector<double> times = point.led;
  for (std::size_t i = 0; i < std::min(times.size(), point.followed.size()); ++i) {
    times[i] = std::max(times[i], point.followed[i]);
  }
  return times;
}

Json pingpong_record(const Endpoints& pair, const Point& point) {
  Json record = head("pingpong", pair, point);
  record["half_round_trip_s"] = point.led;
  record["exchanges_per_sample"] = point.count;
  record["cold_half_round_trip_s"] = optional_json(point.cold_s);
  add_tail(record, point);
  return record;
}

Json stream_record(const Stream& stream, const Endpoints& pair, const Point& point) {
  const bool both = stream.direction == Direction::bi;
  Json record = head("stream", pair, point);
  record["direction"] = name_of(stream.direction);
  record["window"] = stream.window;
  // In both directions each rank times what it receives: the first rank the way back.
  record["forward_s"] = both ? point.followed : point.led;
  record["backward_s"] = both ? point.led : std::vector<double>{};
  record["windows_per_sample"] = point.count;
  record["cold_window_s"] = optional_json(point.cold_s);
  add_tail(record, point);
  return record;
}

}  // namespace

const char* name_of(Direction direction) { return direction == Direction::bi ? "bi" : "uni"; }

// What a failed point took says nothing, so its times are left out.
Json matrix_cell(const Point& point, int second, bool samples) {
  const std::vector<double> times = point.mismatch ? std::vector<double>{} : times_of(point);
  std::optional<Interval> interval;
  if (times.size() >= fewest_samples) interval = median_interval(times);
  Json cell = {{"rank", second},
               {"status", status_of(point)},
               {"reason", reason_of(point)},
               {"median_s", times.empty() ? Json(nullptr) : Json(median(times))},
               {"low_s", interval ? Json(interval->low) : Json(nullptr)},
               {"high_s", interval ? Json(interval->high) : Json(nullptr)},
               {"samples", times.size()},
               {"samples_s", samples ? times : std::vector<double>{}},
               {"count_per_sample", point.count}};
  add_end(cell, point);
  return cell;
}

Json point_record(const Plan& plan, const Endpoints& pair, const Point& point) {
  return plan.benchmark == Benchmark::stream ? stream_record(plan.stream, pair, point) : pingpong_record(pair, point);
}

}  // namespace volley
