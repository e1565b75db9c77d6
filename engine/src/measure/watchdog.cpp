#include "measure/watchdog.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "base/errors.hpp"
#include "machine/placement.hpp"

namespace volley {
namespace {

// Where the launcher's end cannot be waited for.
constexpr double look_s = 0.25;

// Returns -1 where Linux cannot do this.
int watch_process(pid_t process) {
  constexpr long pidfd_open = 434;  // on every processor; headers of Linux before 5.3 lack the name
  return process == 0 ? -1 : static_cast<int>(syscall(pidfd_open, process, 0));
}

int made_eventfd() {
  const int made = eventfd(0, EFD_CLOEXEC);
  check_system(made >= 0, "eventfd");
  return made;
}

struct FatalSignal {
  int number;
  const char* name;
  struct sigaction before;
};

std::array<FatalSignal, 5> fatal_signals{{{SIGSEGV, "SIGSEGV", {}},
                                          {SIGBUS, "SIGBUS", {}},
                                          {SIGFPE, "SIGFPE", {}},
                                          {SIGILL, "SIGILL", {}},
                                          {SIGABRT, "SIGABRT", {}}}};
const Watchdog* speaker = nullptr;

}  // namespace

Watchdog::Watchdog(std::string who, double timeout_s, pid_t launcher)
    : who_(std::move(who)),
      timeout_s_(timeout_s),
      launcher_(launcher),
      start_(Clock::now()),
      deadline_s_(timeout_s),
      wakes_(made_eventfd()),
      launcher_fd_(watch_process(launcher)),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake();
  thread_.join();
  close(wakes_);
  if (launcher_fd_ >= 0) close(launcher_fd_);
}

void Watchdog::wake() const {
  const std::uint64_t once = 1;
  [[maybe_unused]] const auto written = write(wakes_, &once, sizeof once);
}

void Watchdog::watch_over(std::string who, double timeout_s) {
  {
    const std::lock_guard lock(mutex_);
    who_ = std::move(who);
  }
  timeout_s_ = timeout_s;
  progress();
  wake();  // it may sleep until a later deadline
}

void Watchdog::move_to(const std::vector<int>& cpus) {
  if (!cpus.empty()) bind_to_cpus(cpus, thread_.native_handle());
}

void Watchdog::enter(std::string where) {
  {
    const std::lock_guard lock(mutex_);
    where_ = std::move(where);
  }
  progress();
}

void Watchdog::enter_last(std::string where, double most_s) {
  timeout_s_ = std::min(timeout_s_, most_s);
  enter(std::move(where));
  wake();
}

void Watchdog::speak_of_signals() {
  speaker = this;
  struct sigaction ours{};
  ours.sa_handler = [](int number) {
    for (const auto& each : fatal_signals) {
      if (each.number == number) speaker->tell(each.name);
      sigaction(each.number, &each.before, nullptr);
    }
    raise(number);  // arrives when this handler has returned
  };
  for (auto& each : fatal_signals) sigaction(each.number, &ours, &each.before);
}

// In a handler: without a lock, and without memory from the heap.
void Watchdog::tell(const char* signal) const {
  std::array<char, 1024> text{};
  const int length = std::snprintf(text.data(), text.size(), "volley-engine: %s was ended by %s in %s\n", who_.c_str(),
                                   signal, where_.c_str());
  [[maybe_unused]] const auto written =
      write(STDERR_FILENO, text.data(), std::min(static_cast<std::size_t>(length), text.size() - 1));
}

void Watchdog::progress(double expected_s) {
  const double now_s = seconds_since(start_);
  progress_s_.store(now_s, std::memory_order_relaxed);
  deadline_s_.store(now_s + timeout_s_ + expected_s, std::memory_order_relaxed);
}

// Returns false if the launcher has ended. May return early.
bool Watchdog::wait_until(double deadline_s) const {
  const bool looks = launcher_ != 0 && launcher_fd_ < 0;
  const double left_s =
      std::min(deadline_s - seconds_since(start_), looks ? look_s : std::numeric_limits<double>::max());
  // One more millisecond, so that the time is over when it wakes up; a day at most, which fits into an int.
  const int left_ms =
      std::isinf(deadline_s) && !looks ? -1 : static_cast<int>(std::clamp(left_s, 0.0, 86400.0) * 1e3) + 1;
  std::array<pollfd, 2> awaited{{{wakes_, POLLIN, 0}, {launcher_fd_, POLLIN, 0}}};  // poll() passes over -1
  poll(awaited.data(), awaited.size(), left_ms);
  if (awaited[0].revents != 0) {
    std::uint64_t times = 0;
    [[maybe_unused]] const auto got = read(wakes_, &times, sizeof times);
  }
  return launcher_ == 0 || (awaited[1].revents == 0 && getppid() == launcher_);
}

void Watchdog::watch() {
  while (true) {
    const double deadline_s = deadline_s_.load(std::memory_order_relaxed);
    if (!wait_until(deadline_s)) _exit(static_cast<int>(Exit::failed));
    const std::lock_guard lock(mutex_);
    if (done_) return;
    const double now_s = seconds_since(start_);
    if (now_s < deadline_s_.load(std::memory_order_relaxed)) continue;
    std::fprintf(stderr, "volley-engine: watchdog: %s made no progress for %.0f s in %s\n", who_.c_str(),
                 now_s - progress_s_.load(std::memory_order_relaxed), where_.c_str());
    std::fflush(stderr);
    _exit(static_cast<int>(Exit::watchdog));  // no destructor, no MPI: either may hang as well
  }
}

}  // namespace volley
