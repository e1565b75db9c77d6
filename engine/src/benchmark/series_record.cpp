#include "benchmark/benchmark.hpp"
#include "measure/stopping.hpp"

namespace volley {
namespace {

Json name_of(EndedBy ended_by) {
  constexpr std::array names{"", "ci", "time", "few", "fixed", "failure"};  // null while it is open
  return or_null(std::string(names[static_cast<std::size_t>(ended_by)]));
}

const char* status_of(const Series& series) {
  if (!series.skipped.empty()) return "skipped";
  return series.mismatch ? "failed" : "ok";
}

Json reason_of(const Series& series) {
  if (!series.skipped.empty()) return series.skipped;
  if (!series.mismatch) return nullptr;
  return difference("the message that rank " + std::to_string(series.mismatch->rank) + " received", "was sent",
                    *series.mismatch);
}

void add_end(Json& record, const Series& series) {
  record["ended_by"] = name_of(series.ended_by);
  record["messages_timed"] = series.messages_timed;
  record["messages_verified"] = series.messages_verified;
  record["compared_counts"] = series.pass.counts;
  record["compared_in_flight"] = series.pass.in_flight;
  record["elapsed_s"] = series.elapsed_s;
}

// Seconds of each sample. Two directions at once take as long as the slower one.
std::vector<double> times_of(const Series& series) {
  std::vector<double> times = series.first_samples;
  for (std::size_t i = 0; i < std::min(times.size(), series.second_samples.size()); ++i) {
    times[i] = std::max(times[i], series.second_samples[i]);
  }
  return times;
}

}  // namespace

Json to_json(const Mismatch& mismatch) {
  return {{"rank", mismatch.rank},
          {"offset_bytes", mismatch.offset_bytes},
          {"expected", mismatch.expected},
          {"found", mismatch.found},
          {"wrong_bytes", mismatch.wrong_bytes}};
}

Json point_record(const char* record, const std::vector<int>& ranks, const Series& series, const Json& own) {
  Json whole = {{"record", record},
                {"version", record_version},
                {"transport", series.name},
                {"ranks", ranks},
                {"size_bytes", series.view.bytes},
                {"status", status_of(series)},
                {"reason", reason_of(series)}};
  whole.update(own);
  whole["visits"] = series.visits;
  whole["work_s"] = series.work_s;
  whole["empty_sample_s"] = or_null(series.empty_s);
  add_end(whole, series);
  whole["mismatch"] = series.mismatch ? to_json(*series.mismatch) : Json(nullptr);
  return whole;
}

// The times of a failed point mean nothing and are left out.
Json matrix_cell(const Series& series, bool samples) {
  const std::vector<double> times = series.mismatch ? std::vector<double>{} : times_of(series);
  std::optional<Interval> interval;
  if (times.size() >= min_samples) interval = median_interval(times);
  const bool kept = samples && !times.empty();
  Json cell = {{"status", status_of(series)},
               {"reason", reason_of(series)},
               {"median_s", times.empty() ? Json(nullptr) : Json(median(times))},
               {"low_s", interval ? Json(interval->low) : Json(nullptr)},
               {"high_s", interval ? Json(interval->high) : Json(nullptr)},
               {"samples", times.size()},
               {"samples_s", kept ? times : std::vector<double>{}},
               {"visits", kept ? series.visits : std::vector<std::uint64_t>{}},
               {"work_s", kept ? series.work_s : std::vector<double>{}},
               {"count_per_sample", series.count}};
  add_end(cell, series);
  return cell;
}

void write_row(Records& records, Json row, const Json& cells) {
  for (const auto& cell : cells) records.count(cell.at("status").get<std::string>());
  row["cells"] = cells;
  records.write(row);
}

}  // namespace volley
