#include "measure/watchdog.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/errors.hpp"

namespace volley {

Watchdog::Watchdog(std::string who, double timeout_s, bool launched)
    : who_(std::move(who)),
      timeout_s_(timeout_s),
      launcher_(launched ? getppid() : 0),
      start_(Clock::now()),
      deadline_s_(timeout_s),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Watchdog::enter(std::string where) {
  {
    const std::lock_guard lock(mutex_);
    where_ = std::move(where);
  }
  progress();
}

void Watchdog::progress(double expected_s) {
  deadline_s_.store(seconds_since(start_) + timeout_s_ + expected_s, std::memory_order_relaxed);
}

void Watchdog::watch() {
  // Waking up four times a second costs the ranks less than 0.01 % of a core.
  const auto nap = std::chrono::milliseconds(250);
  double seen_s = deadline_s_.load(std::memory_order_relaxed);
  double since_s = 0;  // when progress was last seen: up to a nap after it was made
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, nap, [this] { return done_; })) {
    if (launcher_ != 0 && getppid() != launcher_) _exit(static_cast<int>(Exit::failed));
    const double now_s = seconds_since(start_);
    const double deadline_s = deadline_s_.load(std::memory_order_relaxed);
    if (std::exchange(seen_s, deadline_s) != deadline_s) since_s = now_s;
    if (now_s < deadline_s) continue;
    std::fprintf(stderr, "volley-engine: watchdog: %s made no progress for %.0f s in %s\n", who_.c_str(),
                 std::max(timeout_s_, now_s - since_s), where_.c_str());
    std::fflush(stderr);
    _exit(static_cast<int>(Exit::watchdog));  // no destructor, no MPI: either may hang as well
  }
}

}  // namespace volley
