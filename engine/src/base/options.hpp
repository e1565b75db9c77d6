// The command lines of the engine's two programs (their --help prints them).
#pragma once

#include <string>
#include <vector>

namespace volley {

// Who is asked: `ranks` is volley-engine, one process a rank; `node` is volley-engine-node, one process for all GPUs.
enum class Program { ranks, node };

struct Options {
  enum class Task { measure, about, check, help };
  Task task = Task::measure;
  std::string plan;           // path, or "-" for standard input; only the first rank reads it
  std::string records = "-";  // path, or "-" for the standard output that the engine was started with
  bool bind = false;          // the engine binds each rank before MPI_Init, to one core
  bool share = false;         // the same, to an equal share of the cores: for ranks that have threads
  bool wake = false;          // of a node: all GPUs are made ready before the plan is read
  bool few_queues = false;    // of a node: CUDA makes as many queues to a GPU as links use, and no more
  bool follower = false;      // started by a front that is another rank: must not be rank 0
  std::vector<int> gpus;      // device of each local rank, in order; empty: local rank modulo devices
};

// Throws UsageError when an argument is unknown to the program or lacks its value.
[[nodiscard]] Options parse_options(Program program, int argc, char** argv);

// The text that --help prints.
[[nodiscard]] const char* usage(Program program);

}  // namespace volley
