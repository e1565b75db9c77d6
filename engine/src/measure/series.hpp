// A series: the samples of a transport (or of a cell of a GPU matrix) at one message size.
#pragma once

#include "measure/control.hpp"
#include "measure/stopping.hpp"
#include "measure/watchdog.hpp"
#include "measure/workload.hpp"
#include "messages/message_check.hpp"

namespace volley {

// What is to be measured.
struct SeriesRequest {
  std::string name;     // of the transport, or of a cell
  std::string variant;  // what else tells it from other series, e.g. the operation
  Driver* driver = nullptr;
  Verifier* verifier = nullptr;  // writes and checks the messages; null where they have no contents
  bool verify = true;            // otherwise the verifier only fills the send buffer, once
  bool takes_part = true;        // otherwise this end only fills its send buffer: no message arrives here
  MemoryKind memory = MemoryKind::none;
  View view;
  // What the buffers hold: of the arena, for all series that use it.
  std::shared_ptr<MessageCheck> messages = std::make_shared<MessageCheck>();
  // Of each buffer, for messages at distinct addresses; 0: only last messages are checked.
  std::size_t buffer_bytes = 0;
  std::uint64_t sharers = 1;  // threads or ranks that share the windows of a batch, or of its pass
  bool fresh = false;         // its driver has not used the buffers yet: the first exchange is cold
  bool restarts = false;      // batches have few places, see Transport::restarts()
  bool once_a_batch = false;  // a batch costs more than an empty one and its exchanges, see Transport::once_a_batch()
  Stamps* stamps = nullptr;   // each sample is a single count of a batch, timed by these
};

// Times are seconds of one count divided by the workload's divisor.
struct SeriesResult {
  std::string skipped;                     // the reason if it was skipped
  std::vector<double> first_samples;       // timed by the first rank
  std::vector<double> second_samples;      // timed by the second rank, where it times
  std::vector<double> mean_samples;        // the mean of the ends' own times, where Control::elapsed() gives it
  std::vector<double> entry_skew_s;        // of each sample: from the first end's entry to the last one's; may be empty
  std::vector<std::vector<double>> parts;  // of Driver::parts_s(), each of every sample, on the first rank
  std::vector<std::uint64_t> visits;       // samples of each visit, in order
  std::vector<double> work_s;              // the fixed piece of work at the start of each visit, on the first rank
  std::uint64_t count = 0;                 // of every batch
  std::optional<double> empty_s;           // what a batch takes besides its counts
  std::optional<double> cold_s;
  std::uint64_t messages_timed = 0;
  std::uint64_t messages_verified = 0;
  Pass pass;  // after the samples
  std::optional<Mismatch> mismatch;
  std::string did_not_wait;  // of what has no contents: which end was done too early
  EndedBy ended_by = EndedBy::open;
  double elapsed_s = 0;       // of everything
  double cold_elapsed_s = 0;  // of elapsed_s: until the end of the cold exchange
  double long_pass_s = 0;     // of elapsed_s: what the pass of the first size takes beyond those of others
};

struct SeriesProgress {
  StoppingRule rule;
  double count_s = 0;                     // an estimate of one count, the same on all ranks after a round
  double sampling_s = 0;                  // of the batches in visits
  std::uint64_t second_samples_sent = 0;  // samples of the second rank that the first has
};

struct Series : SeriesRequest, SeriesResult, SeriesProgress {
  // A series may reuse the calibration of an earlier one with the same title.
  [[nodiscard]] std::string title() const { return name + variant; }
  [[nodiscard]] bool verified() const { return verifier != nullptr && verify; }
  [[nodiscard]] bool failed() const { return mismatch || !did_not_wait.empty(); }
  [[nodiscard]] bool open() const { return skipped.empty() && ended_by == EndedBy::open; }
  // The last messages of batches begin at so many distances from the others: at least two.
  [[nodiscard]] std::uint64_t last_places() const { return restarts ? 2 : last_messages_per_fill; }
  // Counts of every sample.
  [[nodiscard]] std::uint64_t sampled() const { return stamps == nullptr ? count : 1; }
  void drop_samples() {
    for (auto* values : {&first_samples, &second_samples, &mean_samples, &entry_skew_s, &work_s}) values->clear();
    parts.clear();
    visits.clear();
    messages_timed = second_samples_sent = 0;
  }
};

// What all that take part in sampling work with.
struct Measuring {
  Control& control_;
  const Sampling& sampling_;
  const Workload& workload_;
  Watchdog& watchdog_;
};

}  // namespace volley
