// What two kernels need that wait for each other: an inbox in each device's memory that the other device writes to, and
// a word in host memory where a kernel reports what it waited for in vain.
#pragma once

#include <array>
#include <atomic>

#include "gpu/buffers.cuh"
#include "gpu/copy.cuh"
#include "gpu/streams.cuh"
#include "transport/agreement.hpp"
#include "transport/device/inbox.cuh"
#include "transport/peer_memory.cuh"

namespace volley::device {

class Inboxes {
 public:
  // How long a kernel waits for the other one: the other rank may still be checking the last batch, or its host may be
  // slow. Less than the watchdog's timeout, so that the device can report what it waited for.
  static constexpr std::uint64_t timeout_ns = 10'000'000'000;

  // Both ranks throw a std::runtime_error if one of them cannot. Collective over the pair.
  void open(const RankGroup& pair) {
    control_ = pair.control.get();
    ranks_ = {pair.rank(pair.self), pair.rank(pair.peer())};
    leads_ = pair.leads();
    gpu::IpcHandle handle{};
    agreed_step(pair, [&] {
      stream_ = gpu::Stream::make();
      report_ = gpu::PinnedBuffer(sizeof(PollReport));
      mine_ = gpu::DeviceBuffer(sizeof(Inbox));
      handle = gpu::ipc_handle(mine_.data());
    });
    const gpu::IpcHandle theirs = exchanged_with_peer(handle, pair);
    agreed_step(pair, [&] { theirs_ = mapped_from_peer(theirs, pair); });
  }

  // Numbers start again with an empty inbox. In a line they have 32 bits; that they overflow is harmless: every message
  // of one size writes the same lines, so that no line still has the number of 2^32 messages ago. Collective.
  void reset() {
    last_ = 0;
    *report() = {PollStatus::ready, 0};
    gpu::zero(mine_.data(), sizeof(Inbox));
    gpu::synchronize();
    VOLLEY_MPI(MPI_Barrier(control_));  // the other rank's first message comes after this
  }

  // The other rank closes its mapping of the inbox before this rank frees the inbox. Collective over the pair.
  void close() {
    theirs_ = {};
    VOLLEY_MPI(MPI_Barrier(control_));
    mine_ = {};
    report_ = {};
    stream_ = {};
  }

  [[nodiscard]] Inbox* mine() const { return reinterpret_cast<Inbox*>(mine_.data()); }
  [[nodiscard]] Inbox* theirs() const { return reinterpret_cast<Inbox*>(theirs_.data()); }
  [[nodiscard]] gpu::StreamHandle stream() const { return stream_.get(); }

  [[nodiscard]] PeerWait wait_up_to(std::uint64_t nanoseconds) const {
    return {report(), &mine()->gave_up, &theirs()->gave_up, nanoseconds};
  }

  // The parameters of the next launch, for `count` exchanges or windows, a message each.
  [[nodiscard]] Launch launch_of(const View& view, std::uint64_t count) const {
    return {.send = view.send,
            .recv = view.recv,
            .recv_there = nullptr,
            .bytes = view.bytes,
            .last_offset = view.last_offset,
            .stride = view.stride,
            .inbox = mine(),
            .inbox_there = theirs(),
            .last = last_,
            .count = count,
            .window_messages = 1,
            .leads = leads_,
            .sends = true,
            .receives = true,
            .wait = wait_up_to(timeout_ns)};
  }

  // Turns the parameters of exchanges into those of windows.
  [[nodiscard]] Launch launch_of(const View& view, std::uint64_t count, const Window& window) const {
    Launch launch = launch_of(view, count);
    launch.window_messages = window.messages;
    launch.sends = window.sends(leads_);
    launch.receives = window.receives(leads_);
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
    if (status != PollStatus::ready) fail("halo " + std::to_string(report()->number), timeout_ns);
  }

 private:
  [[nodiscard]] PollReport* report() const { return reinterpret_cast<PollReport*>(report_.data()); }

  [[noreturn]] void fail(const std::string& what, std::uint64_t waited_ns) const {
    const std::string mine = std::to_string(ranks_[0]);
    const std::string other = "the device of rank " + std::to_string(ranks_[1]);
    if (report()->status == PollStatus::peer_gave_up) {
      throw std::runtime_error("device: " + other + " timed out; rank " + mine + " stopped waiting for " + what);
    }
    throw std::runtime_error("device: the device of rank " + mine + " waited " +
                             std::to_string(waited_ns / 1'000'000'000) + " s for " + what + " from " + other +
                             ": its kernel does not run, or its stores do not arrive");
  }

  MPI_Comm control_ = MPI_COMM_NULL;
  std::array<int, 2> ranks_{};  // this rank's and the other's number in the world
  bool leads_ = false;
  std::uint64_t last_ = 0;
  gpu::Stream stream_;
  gpu::PinnedBuffer report_;
  gpu::DeviceBuffer mine_;
  gpu::IpcMapping theirs_;
};

}  // namespace volley::device
