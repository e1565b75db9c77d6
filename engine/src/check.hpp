// Failures: MPI (and, in GPU files, CUDA) statuses become exceptions that say which call failed where.
//
// Throw anywhere; main.cpp is the only catch and the only MPI_Abort.
#pragma once

#include <mpi.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

namespace volley {

// Exit codes of the engine (docs/architecture.md, "Exit codes").
enum class Exit : int {
  good = 0,
  failed = 1,     // a point failed verification, or something threw
  senseless = 2,  // the plan or the job makes no sense
  unable = 3,     // this machine cannot do it
  watchdog = 4,   // a region made no progress
};

// The plan or the job makes no sense: one sentence a line, each naming the place and the nearest valid form.
class Refusal : public std::runtime_error {
 public:
  explicit Refusal(std::vector<std::string> sentences);
  explicit Refusal(std::string sentence) : Refusal(std::vector<std::string>{std::move(sentence)}) {}
  [[nodiscard]] const std::vector<std::string>& sentences() const noexcept { return sentences_; }

 private:
  std::vector<std::string> sentences_;
};

// A refusal that every rank throws alike: the first rank says it for all, and the job ends without an abort.
class AgreedRefusal : public Refusal {
 public:
  using Refusal::Refusal;
};

// The machine cannot do what was asked, and why.
class Inability : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Whether MPI calls can be made: between MPI_Init and MPI_Finalize.
[[nodiscard]] bool mpi_is_running();

// Throws std::runtime_error naming `call`, MPI's text for `status` and the place.
[[noreturn]] void fail_mpi(int status, const char* call, std::source_location where);

// Inline, so that a call inside a timed region costs one comparison.
inline void check_mpi(int status, const char* call, std::source_location where = std::source_location::current()) {
  if (status != MPI_SUCCESS) [[unlikely]]
    fail_mpi(status, call, where);
}

// Throws std::runtime_error naming `call`, errno's text and the place when `good` is false.
void check_system(bool good, const char* call, std::source_location where = std::source_location::current());

}  // namespace volley

// The macro exists to name the call in the message; everything else is a function.
#define VOLLEY_MPI(call) ::volley::check_mpi((call), #call)
