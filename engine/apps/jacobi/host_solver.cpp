#include "jacobi/host_solver.hpp"

#include <system_error>

namespace volley::jacobi {

std::unique_ptr<Solver> make_host_solver(const Context& context, const JacobiOptions& options, const Grid& grid,
                                         Halos& halos) {
  if (options.single_precision) return std::make_unique<HostSolver<float>>(context, options, grid, halos);
  return std::make_unique<HostSolver<double>>(context, options, grid, halos);
}

ThreadPlan plan_threads(const Job& job, const std::optional<int>& wanted) {
  const RankFacts& self = job.facts(job.rank);
  const auto sharing = std::ranges::count(job.neighbours, self.cores, &RankFacts::cores);
  const auto cores = first_threads(self.cores);
  ThreadPlan plan;
  plan.threads = wanted.value_or(std::max(1, static_cast<int>(cores.size()) / static_cast<int>(sharing)));
  if (sharing == 1 && plan.threads <= static_cast<int>(cores.size())) plan.cpus = cores;
  return plan;
}

ThreadTeam::ThreadTeam(const ThreadPlan& plan) : barrier_(plan.threads) {
  try {
    for (int thread = 1; thread < plan.threads; ++thread) {
      const int cpu = plan.cpus.empty() ? -1 : plan.cpus[static_cast<std::size_t>(thread)];
      others_.emplace_back([this, thread, cpu] { serve(thread, cpu); });
    }
  } catch (const std::system_error& error) {
    const int started = size() - 1;
    for (int missing = size(); missing < plan.threads; ++missing) barrier_.arrive_and_drop();
    end();
    throw UnsupportedError("cannot start " + std::to_string(plan.threads) + " threads, but only " +
                           std::to_string(started) + ": " + error.code().message() + "; choose a smaller --threads");
  }
  // Last, because new threads inherit the affinity.
  static std::weak_ptr<const Binding> of_all_teams;
  binding_ = of_all_teams.lock();
  if (!binding_ && !plan.cpus.empty())
    of_all_teams = binding_ = std::make_shared<const Binding>(std::vector{plan.cpus[0]});
}

ThreadTeam::~ThreadTeam() { end(); }

void ThreadTeam::end() {
  work_ = nullptr;
  barrier_.arrive_and_wait();
  for (auto& thread : others_) thread.join();
}

void ThreadTeam::run(const std::function<void(int)>& work) {
  work_ = &work;
  barrier_.arrive_and_wait();
  // Waits also if thread 0 throws, because the others still use objects of the caller.
  struct WaitForAll {
    std::barrier<>& barrier;
    ~WaitForAll() { barrier.arrive_and_wait(); }
  } wait_for_all{barrier_};
  work(0);
}

void ThreadTeam::serve(int thread, int cpu) {
  // If the kernel refuses, the scheduler places the thread: that may be slower, with the same results.
  if (cpu >= 0) bind_to_cpus({cpu});
  for (;;) {
    barrier_.arrive_and_wait();
    if (work_ == nullptr) return;
    (*work_)(thread);
    barrier_.arrive_and_wait();
  }
}

}  // namespace volley::jacobi
