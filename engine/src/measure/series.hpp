// One series of samples: a transport (or a cell of a GPU matrix) at one message size, its results and its progress.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/memory.hpp"
#include "measure/driver.hpp"
#include "measure/workload.hpp"

namespace volley {

enum class EndedBy { open, ci, time, few, fixed, failure };

struct Series {
  std::string name;  // a series may reuse the calibration of an earlier series with the same name
  Driver* driver = nullptr;
  Verifier* verifier = nullptr;  // writes and checks the messages; null where they have no contents
  bool verify = true;            // otherwise the verifier only fills the send buffer, once
  MemoryKind memory = MemoryKind::none;
  View view;
  // Of each buffer, for messages at distinct addresses; 0: only last messages are checked.
  std::size_t buffer_bytes = 0;
  bool fresh = false;  // its driver has not used the buffers yet: the first exchange is cold

  // Results. Times are seconds of one count divided by the workload's divisor.
  std::string skipped;                     // the reason if it was skipped
  std::vector<double> first_samples;       // timed by the first rank
  std::vector<double> second_samples;      // timed by the second rank, where it times
  std::vector<double> mean_samples;        // the mean of the ends' own times, where Control::elapsed() gives it
  std::vector<double> entry_skew_s;        // of each sample: from the first end's entry to the last one's; may be empty
  std::vector<std::vector<double>> parts;  // of Driver::parts_s(), each of every sample, on the first rank
  std::vector<std::uint64_t> visits;       // samples of each visit, in order
  std::vector<double> work_s;              // the fixed piece of work at the start of each visit, on the first rank
  std::uint64_t count = 0;                 // of every sample
  std::optional<double> empty_s;
  std::optional<double> cold_s;
  std::uint64_t messages_timed = 0;
  std::uint64_t messages_verified = 0;
  Pass pass;  // after the samples
  std::optional<Mismatch> mismatch;
  EndedBy ended_by = EndedBy::open;
  double elapsed_s = 0;

  // Progress.
  std::uint64_t repetition = 0;           // of the pattern: fills of the send buffer so far
  std::uint64_t message = 0;              // the message of the fill that ended the last sample
  double count_s = 0;                     // an estimate of one count, the same on all ranks
  std::size_t next_look = 0;              // samples at which the interval is computed next
  std::uint64_t second_samples_sent = 0;  // samples of the second rank that the first has
  [[nodiscard]] bool verified() const { return verifier != nullptr && verify; }
  [[nodiscard]] bool open() const { return skipped.empty() && ended_by == EndedBy::open; }
};

}  // namespace volley
