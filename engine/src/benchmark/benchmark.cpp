#include "benchmark/benchmark.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "transport/registry.hpp"

namespace volley {
namespace {

// Reads up to the brace that closes the document, and does not wait for the end of the input: Open MPI 5's mpirun does
// not always pass that on.
std::string read_one_document(std::istream& input) {
  std::string text;
  int depth = 0;
  bool quoted = false;
  bool escaped = false;
  for (char c = 0; input.get(c);) {
    text += c;
    if (quoted) {
      quoted = escaped || c != '"';
      escaped = !escaped && c == '\\';
      continue;
    }
    quoted = c == '"';
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    const bool closed = depth == 0 && (c == '}' || c == ']' || c == '\n');
    if (closed && text.find_first_not_of(" \t\r\n") != std::string::npos) break;
  }
  return text;
}

void read_sampling(PlanObject& given, Sampling& sampling) {
  given.choice("mode", sampling.fixed, {{"adaptive", false}, {"fixed", true}});
  given.positive("ci", sampling.ci, 1.0);
  given.seconds("point_time_s", sampling.point_time_s);
  given.seconds("size_time_s", sampling.size_time_s);
  given.integer("min_visits", sampling.min_visits, 1);
  given.integer("warmup", sampling.warmup, std::uint64_t{0});
  given.integer("iterations", sampling.iterations, std::uint64_t{1});
  given.boolean("tail", sampling.tail);
}

void read_transports(PlanObject& given, Plan& plan) {
  given.require("transports", "a list");
  given.names("transports", plan.transports, "a transport's name");
  for (std::size_t i = 0; i < plan.transports.size(); ++i) {
    if (find_transport(plan.transports[i]) != nullptr) continue;
    std::vector<std::string> names;
    for (const auto& entry : registry()) names.push_back(entry.name);
    given.complain(PlanObject::place("transports", i),
                   "this engine has no transport `" + plan.transports[i] + "`; it has " + joined(names));
  }
}

}  // namespace

std::string read_plan_text(const std::string& path) {
  if (path.empty()) throw UsageError("no plan: give --plan FILE, or --plan - to read it from standard input");
  if (path == "-") return read_one_document(std::cin);
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) throw UsageError("the plan " + path + " cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

PlanReading read_plan(const std::string& text, std::span<const BenchmarkEntry> benchmarks) {
  std::vector<std::string> names;
  for (const auto& entry : benchmarks) names.emplace_back(entry.name);
  PlanReading reading;
  Plan& plan = reading.plan;
  plan.document = PlanObject::read_plan(text, reading.errors, [&](PlanObject& given) {
    given.require("benchmark", "one of `" + joined(names, "`, `") + "`");
    const auto chosen = given.one_of("benchmark", names);
    given.integer("world_size", plan.world_size, 1);
    read_transports(given, plan);
    given.texts("excluded", plan.excluded);
    given.object("sampling", [&](PlanObject& sampling) { read_sampling(sampling, plan.sampling); });
    given.boolean("verify", plan.verify);
    given.boolean("share_device", plan.share_device);
    given.seconds("budget_s", plan.budget_s);
    given.seconds("watchdog_s", plan.watchdog_s);
    given.any_object("launch");
    if (!chosen) return given.any_object("options");
    plan.benchmark = names[*chosen];
    reading.benchmark = benchmarks[*chosen].make();
    given.object("options", [&](PlanObject& options) { reading.benchmark->read(options, plan); });
  });
  return reading;
}

// --- the results of a series as JSON ---

namespace {

Json name_of(EndedBy ended_by) {
  constexpr std::array names{"", "ci", "time", "few", "fixed", "failure"};  // null while it is open
  return or_null(std::string(names[static_cast<std::size_t>(ended_by)]));
}

void add_end(Json& record, const Series& series) {
  record["ended_by"] = name_of(series.ended_by);
  record["messages_timed"] = series.messages_timed;
  record["messages_verified"] = series.messages_verified;
  record["compared_counts"] = series.pass.counts;
  record["compared_in_flight"] = series.pass.in_flight;
  record["elapsed_s"] = series.elapsed_s;
}

}  // namespace

const char* status_of(const Series& series) {
  if (!series.skipped.empty()) return "skipped";
  return series.failed() ? "failed" : "ok";
}

Json reason_of(const Series& series) {
  if (!series.skipped.empty()) return series.skipped;
  if (!series.mismatch) return or_null(series.did_not_wait);
  return difference("what rank " + std::to_string(series.mismatch->rank) + " received", "was sent", *series.mismatch);
}

CellTimes times_of(const Series& series) {
  CellTimes times;
  if (series.mismatch || series.first_samples.empty()) return times;
  times.samples_s = series.first_samples;
  for (std::size_t i = 0; i < std::min(times.samples_s.size(), series.second_samples.size()); ++i) {
    times.samples_s[i] = std::max(times.samples_s[i], series.second_samples[i]);
  }
  times.median_s = median(times.samples_s);
  if (times.samples_s.size() >= min_samples) times.interval = median_interval(times.samples_s);
  return times;
}

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

Json matrix_cell(const Series& series, bool samples) {
  const auto [samples_s, median_s, interval] = times_of(series);
  const bool kept = samples && median_s;
  Json cell = {{"status", status_of(series)},
               {"reason", reason_of(series)},
               {"median_s", or_null(median_s)},
               {"low_s", interval ? Json(interval->low) : Json(nullptr)},
               {"high_s", interval ? Json(interval->high) : Json(nullptr)},
               {"samples", samples_s.size()},
               {"samples_s", kept ? samples_s : std::vector<double>{}},
               {"visits", kept ? series.visits : std::vector<std::uint64_t>{}},
               {"work_s", kept ? series.work_s : std::vector<double>{}},
               {"count_per_sample", series.count}};
  add_end(cell, series);
  return cell;
}

void write_row(Records& records, Json row, const std::vector<Json>& cells) {
  for (const auto& cell : cells) records.add_points(cell.at("status"));
  row["cells"] = cells;
  records.write(row);
}

}  // namespace volley
