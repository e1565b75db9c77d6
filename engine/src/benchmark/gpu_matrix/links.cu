#include "base/clock.hpp"
#include "benchmark/gpu_matrix/links.cuh"
#include "gpu/kernel_launch.cuh"
#include "gpu/kernels/flag.cuh"

namespace volley::gpu_matrix {
namespace {

// In host memory.
struct Latch {
  std::uint64_t open;     // the last ticket that may continue
  std::uint64_t expired;  // a ticket whose deadline has passed
};

__global__ void hold(Latch* latch, std::uint64_t ticket, std::uint64_t timeout_ns) {
  gpu::kernels::poll<1>(
      timeout_ns, [&] { return gpu::kernels::is_raised(latch->open, ticket); },
      [&](bool expired) {
        if (expired) gpu::kernels::raise(latch->expired, ticket);
        return expired;
      });
}

Latch& latch_in(const gpu::PinnedBuffer& memory) { return *reinterpret_cast<Latch*>(memory.data()); }

// Starting a thread takes as long as checking a message of a few megabytes.
constexpr std::size_t bytes_worth_a_thread = std::size_t{8} << 20;

// `there` has the seed of route 0. Seeds of the two directions differ in the lowest bit (host/pattern.hpp).
Contents of_route(const Contents& there, const Route& route) { return {there.seed ^ route.number, there.first_word}; }

}  // namespace

StreamBlocker::StreamBlocker() : memory_(sizeof(Latch)) { latch_in(memory_) = {}; }

void StreamBlocker::close(const gpu::Stream& cuda_stream, Seconds timeout) {
  const auto timeout_ns = static_cast<std::uint64_t>(1e9 * timeout.count());
  hold<<<1, 1, 0, cuda_stream.get()>>>(&latch_in(memory_), ++ticket_, timeout_ns);
  gpu::check_launch();
}

void StreamBlocker::open() { std::atomic_ref(latch_in(memory_).open).store(ticket_, std::memory_order_release); }

bool StreamBlocker::expired() const {
  return std::atomic_ref(latch_in(memory_).expired).load(std::memory_order_acquire) != 0;
}

void await(const gpu::Stream& cuda_stream, Seconds timeout) {
  const auto begun = Clock::now();
  while (cuda_stream.busy()) {
    if (seconds_since(begun) < timeout.count()) continue;
    throw HungError("no progress for " + std::to_string(static_cast<int>(timeout.count())) +
                    " s: a copy or a kernel of this cell did not end");
  }
}

void GpuLink::fill(std::byte* message, std::size_t bytes, const Contents& contents) {
  const auto offset = message - buffers().send;
  for (const auto& route : routes()) {
    select(route.from);
    route.from.verifier->fill(route.from.at + offset, bytes, of_route(contents, route));
  }
}

void GpuLink::poison(std::byte* message, std::size_t bytes, const Contents& expected) {
  const auto offset = message - buffers().recv;
  for (const auto& route : routes()) {
    select(route.to);
    route.to.verifier->poison(route.to.at + offset, bytes, of_route(expected, route));
  }
}

// The routes are checked in parallel, because they use different GPUs or different buffers of one.
std::optional<Mismatch> GpuLink::check(const std::byte* message, std::size_t bytes, const Contents& expected) {
  const auto offset = message - buffers().recv;
  struct PendingCheck {
    const char* reader;
    std::future<std::optional<Mismatch>> wrong;
  };
  std::vector<PendingCheck> all;
  const auto policy = bytes < bytes_worth_a_thread ? std::launch::deferred : std::launch::async | std::launch::deferred;
  const auto start_check = [&](const Location& place, const char* reader, const Contents& contents) {
    all.push_back({reader, std::async(policy, [&place, offset, bytes, contents] {
                     select(place);
                     return place.verifier->check(place.at + offset, bytes, contents);
                   })});
  };
  for (const auto& route : routes()) {
    start_check(route.to, "where it arrived", of_route(expected, route));
    if (route.over_link)
      start_check(*route.over_link, "as the other GPU loads it over the link", of_route(expected, route));
  }
  std::optional<Mismatch> found;
  for (auto& [reader, pending] : all) {
    const auto wrong = pending.get();
    if (!wrong || found) continue;
    found = wrong;
    if (complaint_.empty()) complaint_ = difference("the data", "was sent", *wrong) + ", " + reader;
  }
  return found;
}

}  // namespace volley::gpu_matrix
