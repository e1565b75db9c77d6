// The threads of a rank. Each has its share of the rows, and its core.
//
// While there are teams, the calling thread is bound to its core, and threads that it starts inherit that.
#pragma once

#include <barrier>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "group/job.hpp"
#include "host/placement.hpp"

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
  std::shared_ptr<const Binding> binding_;  // of the calling thread; all teams share it, and the last one ends it
};

}  // namespace volley::jacobi
