#include "benchmark/gpu_matrix/gpu_set.hpp"

#include <algorithm>
#include <future>
#include <set>

#include "base/errors.hpp"
#include "benchmark/gpu_matrix/routes.cuh"
#include "measure/workload.hpp"

namespace volley::gpu_matrix {

namespace {

constexpr std::uint64_t page_bytes = 4096;
// The small sections need at most so many bytes, and a plan asks for at least so many.
constexpr std::uint64_t min_bytes = std::uint64_t{64} << 10;
// Around a message of device memory (gpu/device_memory.cu).
constexpr std::uint64_t around_bytes = gpu::overhead_bytes_per_buffer;
constexpr std::uint64_t buffers_of_a_gpu = 4;

std::unique_ptr<GpuEndpoint> make_endpoint(int device, std::uint64_t bytes) {
  gpu::select(device);
  auto made = std::make_unique<GpuEndpoint>();
  made->device = device;
  for (std::size_t operation = 0; operation < 2; ++operation) {
    made->memories[operation] = gpu::make_memory();
    made->buffers[operation] = made->memories[operation]->reserve(bytes);
    made->streams[operation] = gpu::Stream::make();
  }
  made->blocker = std::make_unique<StreamBlocker>();
  return made;
}

std::uint64_t free_bytes(int device) {
  gpu::select(device);
  return gpu::free_memory_bytes();
}

// In parallel: a context takes a tenth of a second.
void make_contexts(const std::vector<int>& devices) {
  std::vector<std::future<std::uint64_t>> being_made;
  for (const int device : devices)
    being_made.push_back(std::async(std::launch::async, [=] { return free_bytes(device); }));
  for (auto& each : being_made) static_cast<void>(each.get());
}

class CudaGpuSet final : public GpuSet {
 public:
  CudaGpuSet(const std::vector<int>& devices, std::uint64_t bytes, std::uint64_t room_bytes, Seconds timeout)
      : timeout_(timeout), capacity_(std::max(bytes, min_bytes) / page_bytes * page_bytes) {
    make_contexts(devices);
    for (const int device : devices) {
      while (capacity_ > min_bytes && buffers_of_a_gpu * (capacity_ + around_bytes) > free_bytes(device)) {
        capacity_ = std::max(capacity_ / 2 / page_bytes * page_bytes, min_bytes);
      }
    }
    room_bytes_ = room_bytes;
    for (const int device : devices) room_bytes_ = std::min(room_bytes_, free_bytes(device) / 2 / buffers_of_a_gpu);
    room_bytes_ = std::max(capacity_, room_bytes_ / page_bytes * page_bytes);
    std::vector<std::future<std::unique_ptr<GpuEndpoint>>> being_made;
    for (const int device : devices) {
      being_made.push_back(std::async(std::launch::async, [=, this] { return make_endpoint(device, room_bytes_); }));
    }
    for (auto& each : being_made) gpus_.push_back(each.get());
    access_.assign(gpus_.size(), std::vector<bool>(gpus_.size(), false));
  }

  // Memory that a hung link may still use is not freed, because freeing would wait for the link.
  ~CudaGpuSet() override {
    if (!hung_) return;
    for (auto& each : gpus_) static_cast<void>(each.release());
  }

  bool can_access(int first, int second) const override {
    return gpu::can_access_peer(at(first).device, at(second).device);
  }

  void give_access() override {
    const int count = static_cast<int>(gpus_.size());
    for (int first = 0; first < count; ++first) {
      gpu::select(at(first).device);
      for (int second = 0; second < count; ++second) {
        if (first == second || !can_access(first, second)) continue;
        access_[index(first)][index(second)] = gpu::enable_peer_access(at(second).device);
      }
    }
  }

  std::uint64_t capacity() const override { return capacity_; }

  std::unique_ptr<GpuLink> link(const Section& section, int first, int second, bool broken) override {
    if (section.ends != Ends::gpus)
      return make_host_copies(section, at(first), std::min(bytes_of_pass(section.bytes), room_bytes_), timeout_);
    const bool peers =
        first == second || (access_[index(first)][index(second)] && access_[index(second)][index(first)]);
    const bool both = section.direction == Direction::bi || section.metric == Metric::store;
    LinkSetup setup{section, {route(section, first, second, 0, peers)}, peers, timeout_, room_bytes_};
    if (both) setup.routes.push_back(route(section, second, first, 1, peers));
    switch (section.metric) {
      case Metric::bandwidth:
      case Metric::completion: return make_copies(std::move(setup), broken);
      case Metric::issue:
      case Metric::enqueue: return make_gated_copies(std::move(setup));
      case Metric::store: return make_remote_stores(std::move(setup));
      case Metric::load: return make_remote_loads(std::move(setup));
    }
    throw std::logic_error("a section measures something");
  }

  std::string lost() override {
    for (const auto& each : gpus_) {
      const std::string error = gpu::device_error(each->device);
      if (!error.empty()) return error;
    }
    return {};
  }

  void renew(int first, int second) override {
    hung_ = true;
    for (const int end : std::set{first, second}) {
      auto& mine = gpus_[index(end)];
      const int device = mine->device;
      static_cast<void>(mine.release());
      mine = make_endpoint(device, room_bytes_);
    }
  }

 private:
  static std::size_t index(int end) { return static_cast<std::size_t>(end); }
  [[nodiscard]] const GpuEndpoint& at(int end) const { return *gpus_[index(end)]; }

  // The first GPU moves the data: it writes to the second one, or reads from it.
  [[nodiscard]] Route route(const Section& section, int first, int second, std::size_t number, bool peers) const {
    const GpuEndpoint& driver = at(first);
    const GpuEndpoint& from = section.operation == AccessOperation::write ? driver : at(second);
    const GpuEndpoint& to = section.operation == AccessOperation::write ? at(second) : driver;
    const Location arrival{to.memories[number].get(), to.buffers[number].recv, to.device};
    Route made{.from = {from.memories[number].get(), from.buffers[number].send, from.device},
               .to = arrival,
               .driver = &driver,
               .number = number,
               .over_link = std::nullopt};
    if (peers && first != second) made.over_link = Location{from.memories[number].get(), arrival.at, from.device};
    return made;
  }

  Seconds timeout_;
  std::uint64_t capacity_;    // of a message
  std::uint64_t room_bytes_;  // of a buffer
  std::vector<std::unique_ptr<GpuEndpoint>> gpus_;
  std::vector<std::vector<bool>> access_;
  bool hung_ = false;
};

}  // namespace

std::unique_ptr<GpuSet> make_gpu_set(const std::vector<int>& devices, std::uint64_t bytes, std::uint64_t room_bytes,
                                     Seconds timeout) {
  return std::make_unique<CudaGpuSet>(devices, bytes, room_bytes, timeout);
}

}  // namespace volley::gpu_matrix
