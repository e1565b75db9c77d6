#include "watchdog.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <utility>

#include "../check.hpp"

namespace volley {

Watchdog::Watchdog(std::string who, double patience_s)
    : who_(std::move(who)), patience_s_(patience_s), allowed_s_(patience_s), since_(Clock::now()), thread_([this] {
        watch();
      }) {}

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
  allowed_s_.store(patience_s_ + expected_s, std::memory_order_relaxed);
  since_.store(Clock::now(), std::memory_order_relaxed);
}

void Watchdog::watch() {
  // Waking up four times a second costs the ranks less than 0.01 % of a core.
  const auto nap = std::chrono::milliseconds(250);
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, nap, [this] { return done_; })) {
    const double quiet_s = seconds_since(since_.load(std::memory_order_relaxed));
    if (quiet_s < allowed_s_.load(std::memory_order_relaxed)) continue;
    std::fprintf(stderr, "volley-engine: watchdog: %s made no progress for %.0f s in %s\n", who_.c_str(),
                 std::floor(quiet_s), where_.c_str());
    std::fflush(stderr);
    _exit(static_cast<int>(Exit::watchdog));  // no destructor, no MPI: either may hang as well
  }
}

}  // namespace volley
