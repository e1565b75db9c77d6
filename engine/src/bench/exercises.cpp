#include "exercises.hpp"

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

Json mismatch_json(const std::optional<Mismatch>& mismatch) {
  if (!mismatch) return nullptr;
  return {{"rank", mismatch->rank},
          {"offset_bytes", mismatch->offset_bytes},
          {"expected", mismatch->expected},
          {"found", mismatch->found},
          {"wrong_bytes", mismatch->wrong_bytes}};
}

std::string failure_sentence(const Mismatch& mismatch) {
  return "the message that rank " + std::to_string(mismatch.rank) + " received differs from what was sent in " +
         std::to_string(mismatch.wrong_bytes) + (mismatch.wrong_bytes == 1 ? " byte" : " bytes") + ", first at offset " +
         std::to_string(mismatch.offset_bytes);
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
Json head(const char* record, const Pair& pair, const Point& point) {
  return {{"record", record},
          {"version", 1},
          {"transport", point.entry->name},
          {"ranks", pair.ranks},
          {"size_bytes", point.view.bytes},
          {"status", status_of(point)},
          {"reason", reason_of(point)}};
}

// What both end with.
void add_tail(Json& record, const Point& point) {
  const char* ended_by = name_of(point.ended_by);
  record["empty_sample_s"] = optional_json(point.empty_s);
  record["ended_by"] = ended_by == nullptr ? Json(nullptr) : Json(ended_by);
  record["messages_timed"] = point.messages_timed;
  record["messages_verified"] = point.messages_verified;
  record["mismatch"] = mismatch_json(point.mismatch);
  record["elapsed_s"] = point.elapsed_s;
}

Json pingpong_record(const Pair& pair, const Point& point) {
  Json record = head("pingpong", pair, point);
  record["half_round_trip_s"] = point.led;
  record["exchanges_per_sample"] = point.count;
  record["cold_half_round_trip_s"] = optional_json(point.cold_s);
  add_tail(record, point);
  return record;
}

Json stream_record(const Stream& stream, const Pair& pair, const Point& point) {
  const bool both = stream.direction == Direction::bi;
  Json record = head("stream", pair, point);
  record["direction"] = both ? "bi" : "uni";
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

Exercise pingpong_exercise() {
  return {.name = "pingpong",
          .run = [](Transport& transport, const View& view, std::uint64_t count) { transport.pingpong(view, count); },
          .messages = {1, 1},
          .parts = 2,
          .second_times = false,
          .one_buffer = true};
}

Exercise stream_exercise(const Stream& stream) {
  const bool both = stream.direction == Direction::bi;
  const auto window = static_cast<std::uint64_t>(stream.window);
  return {.name = both ? "stream bi" : "stream uni",
          .run = [stream](Transport& transport, const View& view,
                          std::uint64_t count) { transport.stream(view, count, stream); },
          .messages = {window, both ? window : 0},
          .parts = 1,
          .second_times = both,
          .one_buffer = false};
}

Json point_record(const Plan& plan, const Pair& pair, const Point& point) {
  return plan.benchmark == Benchmark::stream ? stream_record(plan.stream, pair, point) : pingpong_record(pair, point);
}

}  // namespace volley
