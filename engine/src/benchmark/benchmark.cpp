#include "benchmark/benchmark.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "faults/faults.hpp"

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

// Error messages quote at most one line of the plan.
std::string readable(const std::string& text) {
  constexpr std::size_t longest = 600;
  std::string shown = text.size() > longest ? text.substr(0, longest) + " ..." : text;
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return shown;
}

// The keys of a plan with another version are unknown, so only the version is checked.
std::string wrong_version(const Json& document) {
  if (!document.is_object()) return "plan: $: expected an object";
  const Json* found = document.find("plan");
  if (found == nullptr || *found == plan_version) return {};
  if (!found->is_number_integer()) return "plan: $.plan: expected a version number, found " + line_of(*found);
  return "plan: $.plan: this plan has version " + line_of(*found) + ", this engine reads version " +
         std::to_string(plan_version) + "; use a front end and an engine of the same release";
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

template <class Entries>
auto find_entry(const Entries& entries, const std::string& name) {
  const auto found = std::ranges::find_if(entries, [&](const auto& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

const BenchmarkEntry* read_benchmark(PlanObject& given, std::span<const BenchmarkEntry> benchmarks, Plan& plan) {
  std::vector<std::string> names;
  for (const auto& entry : benchmarks) names.emplace_back(entry.name);
  const std::string expected = "one of `" + joined(names, "`, `") + "`";
  const Json* name = given.required("benchmark", expected);
  if (name == nullptr) return nullptr;
  const auto* found = name->is_string() ? find_entry(benchmarks, name->get<std::string>()) : nullptr;
  if (found == nullptr) given.complain("benchmark", "expected " + expected + ", found " + line_of(*name));
  else plan.benchmark = found->name;
  return found;
}

void read_transports(PlanObject& given, const std::vector<std::string>& names, Plan& plan) {
  static_cast<void>(given.required("transports", "a list"));
  given.names("transports", plan.transports, "a transport's name");
  for (std::size_t i = 0; i < plan.transports.size(); ++i) {
    const std::size_t plus = plan.transports[i].find('+');
    const bool sound = plus == std::string::npos || find_entry(faults(), plan.transports[i].substr(plus + 1));
    if (sound && std::ranges::count(names, plan.transports[i].substr(0, plus)) > 0) continue;
    given.complain(PlanObject::place("transports", i), "this engine has no transport `" + plan.transports[i] +
                                                           "`; it has " + (names.empty() ? "none" : joined(names)));
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

PlanReading read_plan(const std::string& text, std::span<const BenchmarkEntry> benchmarks,
                      const std::vector<std::string>& transports) {
  PlanReading reading;
  Json document;
  try {
    document = json_from(text);
  } catch (const NotJson& error) {
    reading.errors = {readable("plan: " + std::string(error.what()))};
    return reading;
  }
  if (const auto complaint = wrong_version(document); !complaint.empty()) {
    reading.errors = {readable(complaint)};
    return reading;
  }
  Plan& plan = reading.plan;
  plan.document = text;
  PlanObject given(document, "$", reading.errors);
  int version = plan_version;
  given.integer("plan", version, 1);
  const auto* benchmark = read_benchmark(given, benchmarks, plan);
  given.integer("world_size", plan.world_size, 1);
  read_transports(given, transports, plan);
  given.texts("excluded", plan.excluded);
  given.object("sampling", [&](PlanObject& sampling) { read_sampling(sampling, plan.sampling); });
  given.boolean("verify", plan.verify);
  given.boolean("share_device", plan.share_device);
  given.seconds("budget_s", plan.budget_s);
  given.seconds("watchdog_s", plan.watchdog_s);
  given.any_object("launch");
  if (benchmark == nullptr) {
    given.any_object("options");
  } else {
    reading.benchmark = benchmark->make();
    given.object("options", [&](PlanObject& options) { reading.benchmark->read(options, plan); });
  }
  given.finish();
  for (auto& error : reading.errors) error = readable(error);
  return reading;
}

// --- the results of a series as JSON ---

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
