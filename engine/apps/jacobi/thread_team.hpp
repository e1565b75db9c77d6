// The threads of a rank: each has its share of the rows, and its core.
#pragma once

#include <barrier>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "group/job.hpp"

namespace volley::jacobi {

struct ThreadPlan {
  int threads = 1;
  std::vector<int> cpus;  // of each thread; empty: the scheduler places them
};

// `wanted` threads, or one for each core of this rank, shared out among the ranks that have the same cores. Threads
// stay on cores that only this rank has.
[[nodiscard]] ThreadPlan plan_threads(const Job& job, const std::optional<int>& wanted);

class ThreadTeam {
 public:
  // The calling thread is one of them, thread 0. Throws UnsupportedError where the machine has not so many.
  explicit ThreadTeam(const ThreadPlan& plan);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(others_.size()) + 1; }

  // Calls `work(thread)` once on every thread and returns when all have done. Only thread 0 may throw.
  void run(const std::function<void(int)>& work);

 private:
  void serve(int thread, int cpu);
  void end();

  std::barrier<> barrier_;  // every call of run() passes it twice: before the work and behind it
  const std::function<void(int)>* work_ = nullptr;  // null: the threads end
  std::vector<std::thread> others_;
};

}  // namespace volley::jacobi
