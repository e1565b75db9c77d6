// The command line of the engine (its --help prints it).
#pragma once

#include <string>
#include <vector>

namespace volley {

struct Options {
  enum class Task { measure, about, check, help };
  Task task = Task::measure;
  std::string plan;             // path, or "-" for standard input; only the first rank reads it
  std::string records = "-";    // path, or "-" for the standard output that the engine was started with
  std::string mpi_library;      // path of the MPI library that the job runs with; empty: without MPI
  bool bind = false;            // the engine binds each rank before MPI_Init, to one core
  bool share = false;           // the same, to an equal share of the cores, for ranks that have threads
  bool threads = false;         // several threads of a rank call MPI: it is asked for MPI_THREAD_MULTIPLE
  bool follower = false;        // another rank is the front end: this one must not be rank 0
  bool gpu_after_init = false;  // choose the device after MPI_Init, not before
  std::vector<int> gpus;        // device of each local rank, in order; empty: local rank modulo devices
};

// Throws UsageError when an argument is unknown or lacks its value.
[[nodiscard]] Options parse_options(int argc, char** argv);

[[nodiscard]] const char* usage();

}  // namespace volley
