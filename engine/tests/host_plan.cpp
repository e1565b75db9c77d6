// Plans: the checked-in examples are read, and every error of a bad one is told with its place.
#include "base/errors.hpp"
#include "check_test.hpp"
#include "record/plan.hpp"
#include "transport/registry.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace volley;

namespace {

PlanReading reading_of(const std::string& text) { return read_plan(text, registry()); }

bool tells(const PlanReading& reading, const std::string& beginning) {
  return std::any_of(reading.errors.begin(), reading.errors.end(),
                     [&](const std::string& error) { return error.starts_with("plan: " + beginning); });
}

void examples_are_read() {
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
    EXPECT(reading.errors.empty());
    ++read;
  }
  EXPECT(read > 0);
}

void defaults_are_the_front_s() {
  const Plan plan =
      reading_of(R"({"plan": 1, "benchmark": "stream", "transports": ["host"], "sizes_bytes": [8]})").plan;
  EXPECT(plan.world_size == 2 && plan.verify && !plan.fresh_buffers && !plan.budget_s);
  EXPECT(plan.window.messages == 64 && plan.window.direction == Direction::uni);
  EXPECT(!plan.sampling.fixed && plan.sampling.interval == 0.01 && plan.sampling.min_visits == 3);
}

void every_error_is_told() {
  const PlanReading reading = reading_of(R"({"plan": 1, "benchmark": "pingpng", "transports": ["host", "hst", 3],
      "sizes_bytes": [8, 0, -1, 1.5, "x", 18446744073709551615], "world_size": 3, "surprise": 1, "verify": "yes", "excluded": {"aware": 3},
      "budget_s": 0, "launch": [], "stream": {"window": 0, "direction": "up"},
      "sampling": {"interval": 2, "point_time_s": -1, "warmup": -1, "iterations": 0, "tail": 1, "more": 0}})");
  for (const char* place : {"$.benchmark:",
                            "$.transports[1]:",
                            "$.transports[2]:",
                            "$.sizes_bytes[1]:",
                            "$.sizes_bytes[2]:",
                            "$.sizes_bytes[3]:",
                            "$.sizes_bytes[4]:",
                            "$.sizes_bytes[5]:",
                            "$.surprise:",
                            "$.verify:",
                            "$.excluded.aware:",
                            "$.budget_s:",
                            "$.launch:",
                            "$.stream.window:",
                            "$.stream.direction:",
                            "$.sampling.interval:",
                            "$.sampling.point_time_s:",
                            "$.sampling.warmup:",
                            "$.sampling.iterations:",
                            "$.sampling.tail:",
                            "$.sampling.more:"}) {
    if (!tells(reading, place)) std::fprintf(stderr, "nothing is said of %s\n", place);
    EXPECT(tells(reading, place));
  }
  EXPECT(!tells(reading, "$.sizes_bytes[0]") && !tells(reading, "$.transports[0]"));
}

void documents_that_are_no_plan() {
  for (const char* text : {"", "[", "{", "nonsense", "\"text\"", "[]", "{}", R"({"plan": "1"})"}) {
    EXPECT(!reading_of(text).errors.empty());
  }
  const PlanReading newer = reading_of(R"({"plan": 2, "benchmark": "unheard of"})");
  EXPECT(newer.errors.size() == 1 && tells(newer, "$.plan: this plan has version 2"));
  EXPECT(tells(reading_of(R"({"plan": 1})"), "$.benchmark: missing"));
  EXPECT(tells(reading_of(R"({"plan": 1, "benchmark": "pingpong", "transports": ["host"], "sampling": 3})"),
               "$.sampling: "));
}

void a_ping_pong_wants_two_ranks() {
  const std::string rest = R"(, "transports": ["host"], "world_size": 3})";
  EXPECT(tells(reading_of(R"({"plan": 1, "benchmark": "pingpong")" + rest), "$.world_size:"));
  EXPECT(reading_of(R"({"plan": 1, "benchmark": "probe")" + rest).errors.empty());
}

void a_matrix_says_what_it_lacks() {
  const std::string begin = R"({"plan": 1, "benchmark": "matrix", "transports": ["host"], "world_size": )";
  const Plan plan = reading_of(begin + R"(3, "matrix": {"mode": "loaded", "latency_sizes_bytes": [8], "pairs": [[2, 0]],
      "repeats": 9, "samples": true}})")
                        .plan;
  EXPECT(plan.matrix.loaded && plan.matrix.samples && plan.matrix.repeats == 9);
  EXPECT(plan.matrix.pairs.size() == 1 && plan.matrix.pairs[0] == (std::array{2, 0}));
  EXPECT(reading_of(begin + R"(3, "matrix": {"bandwidth_sizes_bytes": [1]}})").errors.empty());
  EXPECT(tells(reading_of(begin + "3}"), "$.matrix: expected at least one size"));
  EXPECT(tells(reading_of(begin + R"(1, "matrix": {"latency_sizes_bytes": [8]}})"), "$.world_size:"));
  const PlanReading bad = reading_of(begin + R"(2, "matrix": {"mode": "busy", "latency_sizes_bytes": [0], "repeats": 0,
      "pairs": [[0, 2], [1, 1], [0], "x"], "more": 1}})");
  for (const char* place : {"$.matrix.mode:", "$.matrix.latency_sizes_bytes[0]:", "$.matrix.repeats:",
                            "$.matrix.pairs: there is no rank 2 among 2",
                            "$.matrix.pairs[1]:", "$.matrix.pairs[2]:", "$.matrix.pairs[3]:", "$.matrix.more:"}) {
    if (!tells(bad, place)) std::fprintf(stderr, "nothing is said of %s\n", place);
    EXPECT(tells(bad, place));
  }
}

void what_a_plan_says_is_quoted_in_one_line() {
  const std::string node = R"({"plan": 1, "benchmark": "node", "world_size": 1, "transports": [], "node": )";
  const PlanReading odd = reading_of(node + R"({"sections": ["\u001b[31m\nred\u0000"]}})");
  EXPECT(odd.errors.size() == 1 && odd.errors[0].find_first_of(std::string("\x1b\n\0", 3)) == std::string::npos);
  const PlanReading longer = reading_of(node + R"({"sections": [")" + std::string(100000, 'x') + R"("]}})");
  EXPECT(longer.errors.size() == 1 && longer.errors[0].size() < 1000);
  EXPECT(tells(reading_of(node + R"({"sections": ["uni"], "gpus": [1, 0, 1]}})"), "$.node.gpus: GPU 1 is named twice"));
  EXPECT(reading_of(node + R"({"sections": ["uni"], "gpus": [1, 0]}})").errors.empty());
  const std::string deep(100000, '[');
  EXPECT(tells(reading_of(R"({"plan": 1, "launch": )" + deep), "nested deeper than 100 levels"));
}

void a_folder_is_no_plan() {
  EXPECT(test::throws<UsageError>([] { static_cast<void>(read_plan_text("/")); }));
}

}  // namespace

int main() {
  examples_are_read();
  defaults_are_the_front_s();
  every_error_is_told();
  documents_that_are_no_plan();
  a_ping_pong_wants_two_ranks();
  a_matrix_says_what_it_lacks();
  what_a_plan_says_is_quoted_in_one_line();
  a_folder_is_no_plan();
  return test::finish();
}
