// `host/threads/N`: N threads of each rank call MPI at once, under MPI_THREAD_MULTIPLE. A thread exchanges messages
// with the thread of the same number of the other rank, over a communicator of their own.
//   round trips   each thread makes all of a batch: what is timed is a round trip while the other threads make theirs
//   windows       the threads share those of a batch, and each acknowledges its own: what is timed is what all of them
//                 send
// In a pass, where every message has a place of its own, they share the round trips, too.
#include <atomic>
#include <deque>
#include <thread>

#include "transport/host_driven.hpp"

namespace volley {
namespace {

// The threads of a rank; number 0 is the one that calls. The others sleep until they are woken for a batch.
class BatchThreads {
 public:
  using Part = std::function<void(int number)>;

  // Number i runs on cpus[i]; without CPUs it runs where the system puts it.
  BatchThreads(int threads, const std::vector<int>& cpus) : cpus_(cpus), problems_(static_cast<std::size_t>(threads)) {
    for (int number = 1; number < threads; ++number) others_.emplace_back([this, number] { obey(number); });
  }
  ~BatchThreads() { give(Order::end); }
  BatchThreads(const BatchThreads&) = delete;
  BatchThreads& operator=(const BatchThreads&) = delete;

  void wake() {
    if (!cpus_.empty()) binding_.emplace(std::vector{cpus_.front()});
    give(Order::wake);
  }
  void rest() {
    give(Order::rest);
    binding_.reset();
  }

  // All threads do their parts at the same time. Throws what the first of those that failed has thrown.
  void run(const Part& part) {
    part_ = &part;
    give(Order::work);
    for (auto& problem : problems_) {
      if (problem) std::rethrow_exception(std::exchange(problem, nullptr));
    }
  }

 private:
  enum class Order { wake, work, rest, end };

  // Returns when all threads have followed the order.
  void give(Order order) {
    order_ = order;
    followed_.store(0, std::memory_order_relaxed);
    orders_.fetch_add(1, std::memory_order_release);
    if (order == Order::wake || order == Order::end) orders_.notify_all();
    if (order == Order::work) perform(0);
    wait_until([&] { return followed_.load(std::memory_order_acquire) == others_.size(); });
  }

  void obey(int number) {
    if (!cpus_.empty()) bind_to_cpus({cpus_[static_cast<std::size_t>(number)]});
    Order order = Order::rest;
    for (std::uint32_t seen = 0; order != Order::end; ++seen) {
      if (order == Order::rest) orders_.wait(seen, std::memory_order_acquire);
      else wait_until([&] { return orders_.load(std::memory_order_acquire) != seen; });
      order = order_;
      if (order == Order::work) perform(number);
      followed_.fetch_add(1, std::memory_order_release);
    }
  }

  void perform(int number) {
    try {
      (*part_)(number);
    } catch (...) {
      problems_[static_cast<std::size_t>(number)] = std::current_exception();
    }
  }

  // Polls, as MPI does; after some microseconds it gives way to other threads, with which it may share a CPU.
  template <class Condition>
  static void wait_until(const Condition& holds) {
    constexpr int polls = 10'000;
    for (int i = 0; !holds(); ++i) {
      if (i >= polls) std::this_thread::yield();
    }
  }

  const std::vector<int> cpus_;
  Order order_ = Order::rest;
  const Part* part_ = nullptr;
  std::vector<std::exception_ptr> problems_;
  std::atomic<std::uint32_t> orders_ = 0;  // so far
  std::atomic<std::size_t> followed_ = 0;  // threads, besides the calling one, that have followed the latest
  std::optional<Binding> binding_;         // of the calling thread, while the others are awake
  std::vector<std::jthread> others_;
};

class ThreadsTransport final : public Transport, public Messages {
 public:
  explicit ThreadsTransport(int threads) : count_(threads) {}

  std::string unavailable(const Context& context, const RankGroup& pair) override {
    if (!mpi_lets_threads_call())
      return "MPI gave this job no MPI_THREAD_MULTIPLE, with which several threads may call it";
    if (pair.size() == 1) return "a rank alone has one end";
    const std::vector<int> cores = first_threads(context.cpus.measuring);
    if (static_cast<int>(cores.size()) < count_) {
      return "each of its threads needs a core of its own, and a rank has " + std::to_string(cores.size()) + " here";
    }
    if (std::ranges::none_of(context.neighbours, [&](const RankFacts& other) {
          return other.rank != context.rank &&
                 std::ranges::any_of(other.cores, [&](int cpu) { return std::ranges::count(cores, cpu) > 0; });
        })) {
      cpus_ = {cores.begin(), cores.begin() + count_};
    }
    return {};
  }

  void open(const RankGroup& pair, const Buffers& buffers) override {
    for (int i = 0; i < count_; ++i) {
      RankGroup own{.ranks = pair.ranks, .name = pair.name, .self = pair.self, .data = {}, .control = {}, .ring = {}};
      own.data = Communicator::duplicate(pair.data.get());
      ends_.emplace_back().open(own, buffers);
      communicators_.push_back(std::move(own.data));
    }
    threads_.emplace(count_, cpus_);
  }

  void close() override {
    threads_.reset();
    for (auto& end : ends_) end.close();
    ends_.clear();
    communicators_.clear();
  }

  [[nodiscard]] Driver* messages() override { return this; }
  [[nodiscard]] std::string refuses(std::size_t) const override { return {}; }
  [[nodiscard]] int threads() const override { return count_; }
  [[nodiscard]] std::string once_a_batch() const override { return "the start and the end of its threads"; }
  [[nodiscard]] std::string keeps_place() const override { return "its threads share one place"; }
  [[nodiscard]] Json facts() const override { return {{"cpus", cpus_}}; }

  void prepare(const View& view, const std::optional<Window>& window) override {
    for (auto& end : ends_) end.prepare(view, window);
  }
  void arm(const View&, std::uint64_t, const std::optional<Window>&) override { threads_->wake(); }
  void disarm() override { threads_->rest(); }

  void round_trips(const View& view, std::uint64_t exchanges) override {
    threads_->run([&](int number) {
      const Portion mine = view.apart() ? share(number, exchanges) : Portion{0, exchanges};
      end(number).round_trips(view.message(mine.first), mine.count);
    });
  }

  void windows(const View& view, std::uint64_t count, const Window& window) override {
    threads_->run([&](int number) {
      const Portion mine = share(number, count);
      end(number).windows(view.message(mine.first * static_cast<std::uint64_t>(window.messages)), mine.count, window);
    });
  }

 private:
  struct Portion {
    std::uint64_t first, count;
  };
  [[nodiscard]] Portion share(int number, std::uint64_t count) const {
    const auto own = static_cast<std::uint64_t>(number);
    const auto all = static_cast<std::uint64_t>(count_);
    const std::uint64_t first = count * own / all;
    return {first, count * (own + 1) / all - first};
  }
  [[nodiscard]] HostDriven<MpiChannel>& end(int number) { return ends_[static_cast<std::size_t>(number)]; }

  const int count_;
  std::vector<int> cpus_;
  std::deque<HostDriven<MpiChannel>> ends_;  // of each thread
  std::vector<Communicator> communicators_;
  std::optional<BatchThreads> threads_;
};

}  // namespace

std::unique_ptr<Transport> make_two_threads() { return std::make_unique<ThreadsTransport>(2); }
std::unique_ptr<Transport> make_four_threads() { return std::make_unique<ThreadsTransport>(4); }
std::unique_ptr<Transport> make_eight_threads() { return std::make_unique<ThreadsTransport>(8); }

}  // namespace volley
