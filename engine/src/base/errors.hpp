// Exceptions, and errors of the system as exceptions. mpi/mpi.hpp and gpu/runtime.hpp do the same for MPI and CUDA.
//
// Throw anywhere: only program.cpp ends the program and calls MPI_Abort. The watchdog, whose
// process hangs, calls _exit.
#pragma once

#include <cerrno>
#include <cstring>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace volley {

// Exit codes of the engine (docs/architecture.md, "Exit codes").
enum class Exit : int {
  good = 0,
  failed = 1,       // a point failed verification, or something threw
  usage = 2,        // of the plan or the job
  unsupported = 3,  // this machine cannot do it
  watchdog = 4,     // a region made no progress
};

// The plan or the job cannot be run. Each sentence names the place of an error and the nearest valid form.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  // A line for each sentence, as the programs print them.
  explicit UsageError(const std::vector<std::string>& sentences)
      : std::runtime_error(joined(sentences, "\nvolley-engine: ")) {}
};

// A usage error that all ranks throw together: rank 0 prints it once, and the job ends without MPI_Abort.
class AgreedUsageError : public UsageError {
 public:
  using UsageError::UsageError;
};

// This machine cannot run the plan; the message says why.
class UnsupportedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[nodiscard]] inline Exit exit_code_of(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return Exit::usage;
  if (dynamic_cast<const UnsupportedError*>(&error) != nullptr) return Exit::unsupported;
  return Exit::failed;
}

// What `step` throws; empty if it throws nothing.
template <class Step>
[[nodiscard]] std::string problem_of(const Step& step) {
  try {
    step();
    return {};
  } catch (const std::exception& failure) {
    return failure.what();
  }
}

// Where in the sources, for people: "file.cpp:12".
[[nodiscard]] inline std::string in_sources(const std::source_location& where) {
  const std::string_view path = where.file_name();
  const auto slash = path.rfind('/');
  return std::string(path.substr(slash == std::string_view::npos ? 0 : slash + 1)) + ":" + std::to_string(where.line());
}

// Throws std::runtime_error naming `call`, errno's text and the place when `good` is false.
inline void check_system(bool good, const char* call, std::source_location where = std::source_location::current()) {
  if (good) return;
  throw std::runtime_error(std::string(call) + " failed: " + std::strerror(errno) + " (" + in_sources(where) + ")");
}

}  // namespace volley
