// The plan: what to measure. src/volley/records/plan.py is its truth, schema/plan.schema.json its generated copy.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace volley {

inline constexpr int plan_version = 1;

enum class Benchmark { pingpong, stream, matrix, node, jacobi, probe };
enum class Direction { uni, bi };

struct Sampling {
  bool fixed = false;         // one batch of `iterations` after `warmup`, as the tutorial does
  double interval = 0.01;     // adaptive: half width of the median's interval, relative
  double point_time_s = 1.0;  // adaptive: a point is given up after this long, at the end of a round
  int min_visits = 3;
  std::uint64_t warmup = 5;
  std::uint64_t iterations = 50;
  bool tail = false;  // adaptive: k = 1
};

struct Window {
  int messages = 64;
  Direction direction = Direction::uni;
};

struct Matrix {
  bool loaded = false;                               // all ranks at once, in a round robin
  std::vector<std::uint64_t> latency_sizes_bytes;    // of ping-pongs
  std::vector<std::uint64_t> bandwidth_sizes_bytes;  // of streams
  std::vector<std::array<int, 2>> pairs;             // empty: all
  int repeats = 1;
  bool samples = false;  // rows keep every sample
};

struct Jacobi {
  std::array<int, 2> topology{1, 1};         // processes along x and y
  std::array<std::int64_t, 2> domain{3, 3};  // points of each process along x and y
  bool single = false;                       // numbers of 4 bytes instead of 8
  std::uint64_t iterations = 1000;
  double tolerance = 1e-5;        // ends when the residual is at most this
  std::uint64_t check_every = 1;  // iterations from one residual to the next
  bool overlap = true;            // the interior is computed while halos are on their way
  std::optional<int> threads;     // of each rank; otherwise its share of the cores
};

struct Node {
  std::vector<std::string> sections;                       // see node/section.hpp
  std::vector<int> gpus;                                   // CUDA's numbers; empty: all
  std::uint64_t largest_bytes = std::uint64_t{512} << 20;  // of a message of any section
  bool quick = false;                                      // less data, fewer samples
  bool samples = false;                                    // rows keep every sample
};

struct Plan {
  Benchmark benchmark = Benchmark::probe;
  int world_size = 2;
  std::vector<std::string> transports;
  std::vector<std::uint64_t> sizes_bytes;
  std::map<std::string, std::string> excluded;  // transport, and why it must not be opened
  Sampling sampling;
  Window window;
  Matrix matrix;
  Node node;
  Jacobi jacobi;
  bool verify = true;
  bool fresh_buffers = false;
  bool share_device = false;
  std::optional<double> budget_s;
  double watchdog_s = 60.0;
  std::string document;  // the plan's text as it came, for the run record
};

// A plan's text, read: the plan, or every error of the text as a line `plan: $.path: what was expected`. It may name
// these transports.
struct PlanReading {
  Plan plan;
  std::vector<std::string> errors;
  bool benchmark_known = false;  // the text says which one; the rest may be wrong
};
struct TransportEntry;
[[nodiscard]] PlanReading read_plan(const std::string& text, std::span<const TransportEntry> transports);

// The text at `path`, or on standard input for "-". Throws UsageError when it cannot be read.
[[nodiscard]] std::string read_plan_text(const std::string& path);

}  // namespace volley
