// Ends the process if a region makes no progress, or as soon as the launcher that started it has ended: then no process
// reads its records. It does not call MPI, because MPI itself may hang.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"

namespace volley {

// Bytes a second: on every machine pages are first touched faster, and a link of 1 Gbit/s carries more. The watchdog
// waits longer for more bytes whose time is not known yet.
inline constexpr double slowest_bytes_per_s = 1e8;

// Its thread sleeps until the time limit is over, the launcher has ended or the watchdog is destroyed, so that it does
// not disturb what is measured on its core. (On Linux before 5.3 it looks four times a second.)
class Watchdog {
 public:
  // `who` begins the sentence, e.g. "rank 1 of 2". `launcher` is the parent process, if it is a launcher; 0: none.
  Watchdog(std::string who, double timeout_s, pid_t launcher = 0);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // From now on it speaks of `who` and has this time limit.
  void watch_over(std::string who, double timeout_s);
  // Moves its thread to these CPUs, if there are any: away from the one that measures.
  void move_to(const std::vector<int>& cpus);
  // From now on the process is in `where`, e.g. "transport host, pair 0-1, 8 B, round trips".
  void enter(std::string where);
  // As above, and it may take at most `most_s`: it does nothing that the time limit was made for.
  void enter_last(std::string where, double most_s);
  // From now on a signal that ends the process, as in a library that crashes, says where it was. Then the handler that
  // was there before gets it. It must not be destroyed.
  void speak_of_signals();
  // Progress was made; the next may take the time limit plus `expected_s`. Cheap: one clock reading, two stores.
  void progress(double expected_s = 0);

 private:
  void watch();
  void tell(const char* signal) const;
  void wake() const;
  [[nodiscard]] bool wait_until(double deadline_s) const;

  std::string who_;
  double timeout_s_;  // used only by the thread that makes progress
  const pid_t launcher_;
  const Clock::time_point start_;
  // Seconds from the start. One value decides: of two the watchdog could see one from before progress and one from
  // after it.
  std::atomic<double> deadline_s_;
  std::atomic<double> progress_s_ = 0;  // for the sentence
  std::mutex mutex_;
  const int wakes_;        // an eventfd
  const int launcher_fd_;  // readable when the launcher has ended; -1: not known
  bool done_ = false;
  std::string where_ = "start-up";
  std::thread thread_;
};

}  // namespace volley
