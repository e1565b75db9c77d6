// One series of samples: a transport (or a cell of a GPU matrix) at one message size, its results and its progress.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/memory.hpp"
#include "measure/driver.hpp"

namespace volley {

enum class EndedBy { open, ci, time, few, fixed, failure };

struct Series {
  std::string name;  // series of one name follow each other, and one's calibration may serve the next
  Driver* driver = nullptr;
  Verifier* verifier = nullptr;  // null where there is nothing to verify
  Verifier* writer = nullptr;    // where nothing is verified: fills the send buffer once
  MemoryKind memory = MemoryKind::none;
  View view;
  std::size_t room_bytes = 0;  // of each buffer, for messages with a place each; 0: only the last messages are checked
  bool fresh = false;          // its buffers have never been used: the first exchange is cold

  // Results. Times are seconds of one count divided by the workload's divisor.
  std::string skipped;                // why, when it was
  std::vector<double> rank0_samples;  // timed by the first rank
  std::vector<double> rank1_samples;  // timed by the second rank, where it times
  std::vector<double>
      entry_skew_s;  // of each sample: from the first end's entry to the last one's, where they are asked
  std::vector<std::uint64_t> visits;  // samples of each visit, in order
  std::vector<double> work_s;         // the fixed piece of work at the start of each visit, on the first rank
  std::uint64_t count = 0;            // of every sample
  std::optional<double> empty_s;
  std::optional<double> cold_s;
  std::uint64_t messages_timed = 0;
  std::uint64_t messages_verified = 0;
  std::optional<Mismatch> mismatch;
  EndedBy ended_by = EndedBy::open;
  double elapsed_s = 0;

  // Progress.
  std::uint64_t repetition = 0;          // of the pattern: fills of the send buffer so far
  std::uint64_t message = 0;             // of the fill, that the last sample ended with
  double count_s = 0;                    // what one count takes, about; the same number on both ranks
  std::size_t next_look = 0;             // samples at which the interval is computed next
  std::uint64_t rank1_samples_sent = 0;  // samples of the second rank that the first has
  [[nodiscard]] bool open() const { return skipped.empty() && ended_by == EndedBy::open; }
};

}  // namespace volley
