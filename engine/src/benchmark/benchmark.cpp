#include "benchmark/benchmark.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "measure/faults.hpp"

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

}  // namespace volley
