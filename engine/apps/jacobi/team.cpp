#include "jacobi/team.hpp"

#include <pthread.h>
#include <sched.h>

#include <string>
#include <system_error>

#include "base/errors.hpp"

namespace volley::jacobi {

namespace {

// Where the kernel refuses, the thread roams: that may be slower and is as right.
void stay_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

Team::Team(int threads, std::vector<int> cpus) {
  try {
    for (int thread = 1; thread < threads; ++thread) {
      workers_.emplace_back(
          [this, thread, cpu = cpus.empty() ? -1 : cpus[static_cast<std::size_t>(thread)]] { serve(thread, cpu); });
    }
  } catch (const std::system_error& problem) {
    const std::size_t begun = workers_.size();
    dismiss();
    throw UnsupportedError("cannot start " + std::to_string(threads) + " threads, only " + std::to_string(begun) +
                           ": " + problem.code().message() + "; --threads takes fewer");
  }
  // Last, because threads inherit where they may run.
  if (!cpus.empty()) stay_on(cpus[0]);
}

Team::~Team() { dismiss(); }

void Team::dismiss() {
  over_ = true;
  turn_.fetch_add(1, std::memory_order_release);
  turn_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void Team::dispatch(Call call, void* work) {
  call_ = call;
  work_ = work;
  busy_.store(size() - 1, std::memory_order_relaxed);
  turn_.fetch_add(1, std::memory_order_release);
  turn_.notify_all();
  // Also where thread 0 throws: the others still use what the caller holds.
  struct Awaits {
    Team& team;
    ~Awaits() { team.await(); }
  } awaits{*this};
  call(work, 0);
}

void Team::await() {
  for (int busy = busy_.load(std::memory_order_acquire); busy > 0; busy = busy_.load(std::memory_order_acquire)) {
    busy_.wait(busy, std::memory_order_acquire);
  }
}

void Team::serve(int thread, int cpu) {
  if (cpu >= 0) stay_on(cpu);
  for (std::uint64_t seen = 0;; ++seen) {
    turn_.wait(seen, std::memory_order_acquire);
    if (over_) return;
    call_(work_, thread);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace volley::jacobi
