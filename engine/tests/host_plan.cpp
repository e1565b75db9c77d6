// Plans: the checked-in examples are read, and every error of a bad one is told with its place.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "../src/benchmarks.hpp"
#include "base/errors.hpp"
#include "expect.hpp"
#include "transport/registry.hpp"

using namespace volley;

namespace {

PlanReading reading_of(const std::string& text) { return read_plan(text, benchmarks); }

bool tells(const PlanReading& reading, const std::string& beginning) {
  return std::any_of(reading.errors.begin(), reading.errors.end(),
                     [&](const std::string& error) { return error.starts_with("plan: " + beginning); });
}

void tells_of_each(const PlanReading& reading, std::initializer_list<const char*> places) {
  for (const char* place : places) {
    if (!tells(reading, place)) std::fprintf(stderr, "nothing is said of %s\n", place);
    EXPECT(tells(reading, place));
  }
}

TEST(examples_are_read) {
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(VOLLEY_SCHEMA_DIR "/examples")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("plan-")) continue;
    std::ifstream file(entry.path());
    PlanReading reading = reading_of({std::istreambuf_iterator<char>(file), {}});
    // A build without CUDA lacks the transports on device memory: the one thing that it may complain of.
    std::erase_if(reading.errors, [](const std::string& error) {
      return error.find("this engine has no transport") != std::string::npos;
    });
    for (const auto& error : reading.errors) std::fprintf(stderr, "%s: %s\n", name.c_str(), error.c_str());
    EXPECT(reading.errors.empty() && reading.benchmark != nullptr);
    ++read;
  }
  EXPECT(read > 0);
}

TEST(defaults_are_the_front_s) {
  const Plan plan = reading_of(R"({"plan": 2, "benchmark": "stream", "transports": ["host"]})").plan;
  EXPECT(plan.world_size == 2 && plan.verify && !plan.share_device && !plan.budget_s && plan.watchdog_s == 60);
  EXPECT(!plan.sampling.fixed && plan.sampling.ci == 0.01 && plan.sampling.min_visits == 3);
}

TEST(every_error_is_told) {
  const PlanReading common = reading_of(R"({"plan": 2, "benchmark": "pingpng", "transports": ["host", "hst", 3],
      "world_size": 0, "surprise": 1, "watchdog_s": 1e10, "verify": "yes", "excluded": {"aware": 3}, "budget_s": 0, "launch": [],
      "sampling": {"ci": 2, "point_time_s": -1, "size_time_s": 0, "warmup": -1, "iterations": 0, "min_visits": 0, "tail": 1, "more": 0}})");
  tells_of_each(common,
                {"$.benchmark:", "$.transports[1]:", "$.transports[2]:", "$.world_size:", "$.surprise:", "$.verify:",
                 "$.excluded.aware:", "$.budget_s:", "$.launch:", "$.sampling.ci:", "$.sampling.point_time_s:",
                 "$.sampling.size_time_s:", "$.sampling.warmup:", "$.sampling.iterations:", "$.sampling.min_visits:",
                 "$.watchdog_s:", "$.sampling.tail:", "$.sampling.more:"});
  EXPECT(!tells(common, "$.transports[0]"));
  const PlanReading own = reading_of(R"({"plan": 2, "benchmark": "stream", "transports": ["host"], "options": {
      "sizes_bytes": [8, 0, -1, 1.5, "x", 18446744073709551615], "window": 0, "direction": "up", "more": 1}})");
  tells_of_each(own, {"$.options.sizes_bytes[1]:", "$.options.sizes_bytes[2]:", "$.options.sizes_bytes[3]:",
                      "$.options.sizes_bytes[4]:", "$.options.sizes_bytes[5]:", "$.options.window:",
                      "$.options.direction:", "$.options.more: unknown key"});
  EXPECT(!tells(own, "$.options.sizes_bytes[0]"));
  const PlanReading empty = reading_of(R"({"plan": 2, "benchmark": "pingpong", "transports": ["host"], "options": {
      "sizes_bytes": [0, -1]}})");
  EXPECT(tells(empty, "$.options.sizes_bytes[1]: expected a whole number of bytes of at least 0"));
  EXPECT(!tells(empty, "$.options.sizes_bytes[0]"));
}

TEST(documents_that_are_no_plan) {
  for (const char* text : {"", "[", "{", "nonsense", "\"text\"", "[]", "{}", R"({"plan": "2"})"}) {
    EXPECT(!reading_of(text).errors.empty());
  }
  const PlanReading older = reading_of(R"({"plan": 1, "benchmark": "unheard of"})");
  EXPECT(older.errors.size() == 1 && tells(older, "$.plan: this plan has version 1"));
  EXPECT(tells(reading_of(R"({"plan": 2})"), "$.benchmark: missing"));
  EXPECT(tells(reading_of(R"({"plan": 2, "benchmark": "pingpong", "transports": ["host"], "sampling": 3})"),
               "$.sampling: "));
  EXPECT(tells(reading_of(R"({"plan": 2, "benchmark": "pingpong", "transports": ["host"], "options": []})"),
               "$.options: "));
}

TEST(each_benchmark_knows_how_many_ranks_it_needs) {
  const auto with = [](const std::string& benchmark, int ranks, const std::string& options) {
    return reading_of(R"({"plan": 2, "benchmark": ")" + benchmark + R"(", "transports": ["host"], "world_size": )" +
                      std::to_string(ranks) + R"(, "options": )" + options + "}");
  };
  EXPECT(tells(with("pingpong", 3, "{}"), "$.world_size:"));
  EXPECT(with("probe", 1, "{}").errors.empty() && with("probe", 3, "{}").errors.empty());
  EXPECT(tells(with("self_send", 2, "{}"), "$.world_size:") && with("self_send", 1, "{}").errors.empty());
  EXPECT(tells(with("path", 1, R"({"sizes_bytes": [8]})"), "$.world_size:"));
  EXPECT(with("path", 3, R"({"sizes_bytes": [8]})").errors.empty());
  EXPECT(tells(with("rank_matrix", 1, R"({"latency_sizes_bytes": [8]})"), "$.world_size:"));
  EXPECT(tells(with("collective", 1, "{}"), "$.world_size: a collective needs at least 2 ranks"));
  EXPECT(tells(with("collective", 100000, "{}"), "$.world_size: sums of `float` are exact for up to "));
  EXPECT(tells(with("message_rate", 3, R"({"sizes_bytes": [8], "pairs": [1]})"), "$.world_size:"));
  EXPECT(with("message_rate", 4, R"({"sizes_bytes": [8], "pairs": [1, 2]})").errors.empty());
  tells_of_each(with("message_rate", 4, R"({"pairs": [3, 0, 2147483648]})"),
                {"$.options.sizes_bytes: expected at least one size", "$.options.pairs[0]: expected at most 2",
                 "$.options.pairs[1]:", "$.options.pairs[2]:"});
  EXPECT(tells(with("message_rate", 4, R"({"sizes_bytes": [8], "pairs": []})"), "$.options.pairs:"));
  EXPECT(tells(with("gpu_matrix", 2, R"({"sections": ["uni"]})"), "$.world_size:"));
  EXPECT(tells(with("jacobi", 6, R"({"grid": [2, 2], "domain": [9, 9]})"),
               "$.options.grid: a grid of 2 x 2 processes does not fit 6 ranks; these do: 1 x 6, 2 x 3, 3 x 2, 6 x 1"));
}

TEST(a_matrix_says_what_it_lacks) {
  const std::string begin =
      R"({"plan": 2, "benchmark": "rank_matrix", "transports": ["host"], "world_size": 2, "options": )";
  EXPECT(reading_of(begin + R"({"bandwidth_sizes_bytes": [1]}})").errors.empty());
  EXPECT(tells(reading_of(begin + "{}}"), "$.options: expected at least one size"));
  tells_of_each(
      reading_of(begin + R"({"mode": "busy", "latency_sizes_bytes": [0], "repeats": 0,
      "window": 1048577, "pairs": [[0, 2], [1, 1], [0], "x", [-1, 0], [0, 2147483648]], "more": 1}})"),
      {"$.options.mode:", "$.options.latency_sizes_bytes[0]:", "$.options.repeats:",
       "$.options.pairs: there is no rank 2 among 2", "$.options.pairs[1]:", "$.options.pairs[2]:",
       "$.options.pairs[3]:", "$.options.pairs[4]:", "$.options.pairs[5]:", "$.options.window:", "$.options.more:"});
}

TEST(a_transport_without_halos_is_named) {
  EXPECT(tells(reading_of(R"({"plan": 2, "benchmark": "jacobi", "transports": ["host", "null"],
      "options": {"grid": [2, 1], "domain": [9, 9]}})"),
               "$.transports[1]: `null` cannot exchange halos; these can: host"));
}

TEST(what_a_plan_says_is_quoted_in_one_line) {
  const std::string gpus = R"({"plan": 2, "benchmark": "gpu_matrix", "world_size": 1, "transports": [], "options": )";
  const PlanReading odd = reading_of(gpus + R"({"sections": ["\u001b[31m\nred\u0000"]}})");
  EXPECT(odd.errors.size() == 1 && odd.errors[0].find_first_of(std::string("\x1b\n\0", 3)) == std::string::npos);
  const PlanReading longer = reading_of(gpus + R"({"sections": [")" + std::string(100000, 'x') + R"("]}})");
  EXPECT(longer.errors.size() == 1 && longer.errors[0].size() < 1000);
  EXPECT(tells(reading_of(gpus + "{}}"), "$.options.sections: missing"));
  EXPECT(
      tells(reading_of(gpus + R"({"sections": ["uni"], "gpus": [1, 0, 1]}})"), "$.options.gpus: GPU 1 is named twice"));
  EXPECT(reading_of(gpus + R"({"sections": ["uni"], "gpus": [1, 0]}})").errors.empty());
  const std::string deep(100000, '[');
  EXPECT(tells(reading_of(R"({"plan": 2, "launch": )" + deep), "nested deeper than 100 levels"));
}

// The launcher may never close the input: the plan ends with the brace that closes it, wherever texts have others.
TEST(a_plan_ends_with_its_brace) {
  for (const std::string text : {R"({"a": "}"})", R"({"a": "\"}\\"})", R"([{"a": ["]"]}])", "7\n"}) {
    std::istringstream input("\n " + text + " {\"more\"");
    std::streambuf* const before = std::cin.rdbuf(input.rdbuf());
    EXPECT(read_plan_text("-") == "\n " + text);
    std::cin.rdbuf(before);
  }
}

TEST(a_folder_is_no_plan) {
  EXPECT(test::throws<UsageError>([] { static_cast<void>(read_plan_text("/")); }));
}

}  // namespace

int main() { return test::run_all(); }
