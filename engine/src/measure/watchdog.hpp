// Ends the process if a region makes no progress, or if the launcher that started it has ended: then no process reads
// its records. It does not call MPI, because MPI itself may hang.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.hpp"

namespace volley {

// Bytes a second: on every machine pages are first touched faster, and a link of 1 Gbit/s carries more. The watchdog
// waits longer for more bytes whose time is not known yet.
inline constexpr double slowest_bytes_per_s = 1e8;

class Watchdog {
 public:
  // `who` begins the sentence, e.g. "rank 1 of 2". `launched`: the parent process is a launcher.
  Watchdog(std::string who, double timeout_s, bool launched = false);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // From now on the process is in `where`, e.g. "transport host, pair 0-1, 8 B, round trips".
  void enter(std::string where);
  // Progress was made; the next may take the time limit plus `expected_s`. Cheap: one clock reading, one store.
  void progress(double expected_s = 0);

 private:
  void watch();

  const std::string who_;
  const double timeout_s_;
  const pid_t launcher_;  // 0: none
  const Clock::time_point start_;
  // Seconds from the start. This is one value: of two values the watcher could see one from before and one from after
  // progress.
  std::atomic<double> deadline_s_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::string where_ = "start-up";
  std::thread thread_;
};

}  // namespace volley
