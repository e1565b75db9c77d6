// What the host has for kernels of two devices that exchange messages by themselves: a stream, the parameters of each
// launch, and a word in host memory where a kernel reports what it waited for in vain.
#pragma once

#include <array>
#include <atomic>

#include "gpu/buffers.cuh"
#include "gpu/copy.cuh"
#include "gpu/streams.cuh"
#include "measure/driver.hpp"
#include "transport/agreement.hpp"
#include "transport/device/inbox.cuh"

namespace volley::device {

class Launches {
 public:
  explicit Launches(const char* transport) : transport_(transport) {}

  // A kernel waits for the other one for up to `timeout_ns`: the other rank may still be checking the last batch, or
  // its host may be slow. Both ranks throw a std::runtime_error if one of them cannot. Collective over the pair.
  void open(const RankGroup& pair, std::uint64_t timeout_ns) {
    control_ = pair.control.get();
    ranks_ = {pair.rank(pair.self), pair.rank(pair.peer())};
    leads_ = pair.leads();
    timeout_ns_ = timeout_ns;
    agreed_step(pair, [&] {
      stream_ = gpu::Stream::make();
      report_ = gpu::PinnedBuffer(sizeof(PollReport));
    });
  }

  // Numbers start again when the memory has been cleared that the other device signals in. The caller agrees on this step
  // with the other rank, whose first message comes after that.
  void reset(std::byte* signals, std::size_t bytes) {
    last_ = 0;
    *report() = {PollStatus::ready, 0};
    gpu::zero(signals, bytes);
    gpu::synchronize();
  }

  void close() {
    report_ = {};
    stream_ = {};
  }

  [[nodiscard]] const gpu::Stream& stream() const { return stream_; }

  // The parameters of the next launch, for `count` exchanges; a derived class adds the memory of the signals.
  [[nodiscard]] Launch launch_of(const View& view, std::uint64_t count) const {
    Launch launch{};
    launch.send = view.send;
    launch.recv = view.recv;
    launch.bytes = view.bytes;
    launch.last_offset = view.last_offset;
    launch.stride = view.stride;
    launch.last = last_;
    launch.count = count;
    launch.window_messages = 1;
    launch.leads = leads_;
    launch.sends = launch.receives = true;
    launch.wait = {.report = report(), .peer_gave_up = nullptr, .gave_up = nullptr, .timeout_ns = timeout_ns_};
    return launch;
  }

  // Turns the parameters of exchanges into those of windows.
  [[nodiscard]] static Launch windows_of(Launch launch, const Window& window) {
    launch.window_messages = window.messages;
    launch.sends = window.sends(launch.leads);
    launch.receives = window.receives(launch.leads);
    return launch;
  }

  // Waits for a launch that used `numbers` numbers. Throws if its messages did not arrive.
  void complete(const Launch& launch, std::uint64_t numbers) {
    stream_.synchronize();
    if (report()->status != PollStatus::ready) {
      const char* what = launch.window_messages > 1 ? "window " : "message ";
      fail(what + std::to_string(report()->number) + " of " + std::to_string(launch.bytes) + " B",
           launch.wait.timeout_ns);
    }
    last_ += numbers;
  }

  // The number of the last message, window or halo, the same on both ranks; complete() counts it up, or this.
  [[nodiscard]] std::uint64_t last() const { return last_; }
  std::uint64_t next() { return ++last_; }

  // Throws if a kernel has given up waiting for a halo.
  void check_halos() const {
    const auto status = std::atomic_ref(report()->status).load(std::memory_order_acquire);
    if (status != PollStatus::ready) fail("halo " + std::to_string(report()->number), timeout_ns_);
  }

 protected:
  [[nodiscard]] std::uint64_t timeout_ns() const { return timeout_ns_; }
  [[nodiscard]] PollReport* report() const { return reinterpret_cast<PollReport*>(report_.data()); }
  [[nodiscard]] MPI_Comm control() const { return control_; }

 private:
  [[noreturn]] void fail(const std::string& what, std::uint64_t waited_ns) const {
    const std::string begin = transport_ + std::string(": ");
    const std::string mine = std::to_string(ranks_[0]);
    const std::string other = "the device of rank " + std::to_string(ranks_[1]);
    if (report()->status == PollStatus::peer_gave_up) {
      throw std::runtime_error(begin + other + " timed out; rank " + mine + " stopped waiting for " + what);
    }
    throw std::runtime_error(begin + "the device of rank " + mine + " waited " +
                             std::to_string(waited_ns / 1'000'000'000) + " s for " + what + " from " + other +
                             ": its kernel does not run, or its stores do not arrive");
  }

  const char* transport_;
  MPI_Comm control_ = MPI_COMM_NULL;
  std::array<int, 2> ranks_{};  // this rank's and the other's number in the world
  bool leads_ = false;
  std::uint64_t timeout_ns_ = 0;
  std::uint64_t last_ = 0;
  gpu::Stream stream_;
  gpu::PinnedBuffer report_;
};

}  // namespace volley::device
