// The threads of a rank. Each has its share of the rows, and its core.
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

// `wanted` threads, or one for each core of this rank; ranks with the same cores get equal shares of them. Threads are
// bound to cores that only this rank has.
[[nodiscard]] ThreadPlan plan_threads(const Job& job, const std::optional<int>& wanted);

class ThreadTeam {
 public:
  // The calling thread is thread 0. Throws UnsupportedError if the machine cannot start so many threads.
  explicit ThreadTeam(const ThreadPlan& plan);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(others_.size()) + 1; }

  // Calls `work(thread)` once on every thread and returns when all have finished. Only thread 0 may throw.
  void run(const std::function<void(int)>& work);

 private:
  void serve(int thread, int cpu);
  void end();

  std::barrier<> barrier_;                          // run() passes it before the work and after it
  const std::function<void(int)>* work_ = nullptr;  // null: the threads end
  std::vector<std::thread> others_;
};

}  // namespace volley::jacobi
