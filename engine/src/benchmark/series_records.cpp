#include "benchmark/series_records.hpp"

#include <algorithm>

#include "measure/stopping.hpp"
#include "record/records.hpp"

namespace volley {

namespace {

const char* name_of(EndedBy ended_by) {
  switch (ended_by) {
    case EndedBy::ci: return "interval";
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

const char* status_of(const Series& series) {
  if (!series.skipped.empty()) return "skipped";
  return series.mismatch ? "failed" : "ok";
}

Json reason_of(const Series& series) {
  if (!series.skipped.empty()) return series.skipped;
  if (series.mismatch) return failure_sentence(*series.mismatch);
  return nullptr;
}

// What both benchmarks' records begin with.
Json head(const char* record, const Group& pair, const Series& series) {
  return {{"record", record},           {"version", record_version},       {"transport", series.name},
          {"ranks", pair.ranks},        {"size_bytes", series.view.bytes}, {"status", status_of(series)},
          {"reason", reason_of(series)}};
}

// What all end with.
void add_end(Json& record, const Series& series) {
  const char* ended_by = name_of(series.ended_by);
  record["ended_by"] = ended_by == nullptr ? Json(nullptr) : Json(ended_by);
  record["messages_timed"] = series.messages_timed;
  record["messages_verified"] = series.messages_verified;
  record["mismatch"] = series.mismatch ? to_json(*series.mismatch) : Json(nullptr);
  record["elapsed_s"] = series.elapsed_s;
}

void add_tail(Json& record, const Series& series) {
  record["empty_sample_s"] = optional_json(series.empty_s);
  add_end(record, series);
}

// Seconds of each sample; both directions at once take as long as the slower of them.
std::vector<double> times_of(const Series& series) {
  std::vector<double> times = series.rank0_samples;
  for (std::size_t i = 0; i < std::min(times.size(), series.rank1_samples.size()); ++i) {
    times[i] = std::max(times[i], series.rank1_samples[i]);
  }
  return times;
}

Json pingpong_record(const Group& pair, const Series& series) {
  Json record = head("pingpong", pair, series);
  record["half_round_trip_s"] = series.rank0_samples;
  record["exchanges_per_sample"] = series.count;
  record["cold_half_round_trip_s"] = optional_json(series.cold_s);
  add_tail(record, series);
  return record;
}

Json stream_record(const Window& window, const Group& pair, const Series& series) {
  const bool both = window.direction == Direction::bi;
  Json record = head("stream", pair, series);
  record["direction"] = name_of(window.direction);
  record["window"] = window.messages;
  // In both directions each rank times what it receives: the first rank the way back.
  record["forward_s"] = both ? series.rank1_samples : series.rank0_samples;
  record["backward_s"] = both ? series.rank0_samples : std::vector<double>{};
  record["windows_per_sample"] = series.count;
  record["cold_window_s"] = optional_json(series.cold_s);
  add_tail(record, series);
  return record;
}

}  // namespace

const char* name_of(Direction direction) { return direction == Direction::bi ? "bi" : "uni"; }

Json to_json(const Mismatch& mismatch) {
  return {{"rank", mismatch.rank},
          {"offset_bytes", mismatch.offset_bytes},
          {"expected", mismatch.expected},
          {"found", mismatch.found},
          {"wrong_bytes", mismatch.wrong_bytes}};
}

// What a failed point took says nothing, so its times are left out.
Json matrix_cell(const Series& series, int second, bool samples) {
  const std::vector<double> times = series.mismatch ? std::vector<double>{} : times_of(series);
  std::optional<Interval> interval;
  if (times.size() >= fewest_samples) interval = median_interval(times);
  Json cell = {{"rank", second},
               {"status", status_of(series)},
               {"reason", reason_of(series)},
               {"median_s", times.empty() ? Json(nullptr) : Json(median(times))},
               {"low_s", interval ? Json(interval->low) : Json(nullptr)},
               {"high_s", interval ? Json(interval->high) : Json(nullptr)},
               {"samples", times.size()},
               {"samples_s", samples ? times : std::vector<double>{}},
               {"count_per_sample", series.count}};
  add_end(cell, series);
  return cell;
}

Json point_record(const Plan& plan, const Group& pair, const Series& series) {
  return plan.benchmark == Benchmark::stream ? stream_record(plan.window, pair, series) : pingpong_record(pair, series);
}

}  // namespace volley
