// The threads of a rank: each has its share of the rows, and its core.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace volley::jacobi {

class Team {
 public:
  // `threads` in all, the calling one among them. Thread i stays on `cpus[i]`; where that is empty they may roam.
  // Throws UnsupportedError where the machine has not so many.
  Team(int threads, std::vector<int> cpus);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls `work(thread)` once on every thread, the caller being thread 0, and returns when all have done. Only thread
  // 0 may throw.
  template <class Work>
  void run(Work&& work) {
    dispatch([](void* what, int thread) { (*static_cast<std::remove_reference_t<Work>*>(what))(thread); }, &work);
  }

 private:
  using Call = void (*)(void*, int);
  void dispatch(Call call, void* work);
  void await();
  void serve(int thread, int cpu);
  void dismiss();

  std::vector<std::thread> workers_;
  std::atomic<std::uint64_t> turn_{0};  // one more: there is work
  std::atomic<int> busy_{0};            // workers that have not done yet
  bool over_ = false;
  Call call_ = nullptr;
  void* work_ = nullptr;
};

}  // namespace volley::jacobi
