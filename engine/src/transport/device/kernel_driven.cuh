// What transports share whose kernels on two devices exchange messages without their hosts (gpu/kernels/messages.cuh):
// what the host does for a launch.
#pragma once

#include <atomic>

#include "gpu/kernel_launch.cuh"
#include "gpu/kernels/messages.cuh"
#include "transport/peer_memory.hpp"

namespace volley::device {

using namespace gpu::kernels;

// A transport whose messages are exchanged by kernels on both devices, which wait for each other without their hosts.
// Each rank has a stream, and a word in host memory where a kernel reports what it waited for in vain.
class KernelDriven : public Transport, public Messages {
 public:
  explicit KernelDriven(const char* name) : name_(name) {}

  std::string unavailable(const Context& context, const RankGroup& pair) override {
    if (context.gpu(pair.rank(0)) != context.gpu(pair.rank(1))) return without_peer_access(context, pair);
    return "needs two devices: kernels of two processes take turns on one device, so they cannot answer each other";
  }
  [[nodiscard]] Driver* messages() override { return this; }
  [[nodiscard]] std::string once_a_batch() const override { return "the launch of a kernel"; }
  void limit_waits(double seconds) override { timeout_s_ = seconds; }
  void close() override {
    report_ = {};
    stream_ = {};
  }

 protected:
  // Added to the time that a kernel may wait: no link that carries peer access is slower than 1 GB/s (PCIe 1.0 x4).
  static constexpr std::uint64_t ns_per_byte = 1;

  // All blocks of a launch of one of `kernels` must be resident together, on both devices: one that waits for a place
  // would wait for ever. Throws a std::runtime_error on both ranks. Collective over the pair.
  template <class... Kernels>
  void open_launches(const RankGroup& pair, Kernels... kernels) {
    ranks_ = {pair.rank(pair.self), pair.rank(pair.peer())};
    leads_ = pair.leads();
    agreed_step(pair, [&] {
      stream_ = gpu::Stream::make();
      report_ = gpu::PinnedBuffer(sizeof(PollReport));
      blocks_ = std::min({max_blocks, gpu::resident_blocks(kernels, max_threads)...});
    });
    blocks_ = std::min(blocks_, exchanged_with_peer(blocks_, pair));
  }

  // Numbers start again when the memory has been cleared that the other device signals in. The caller agrees on this
  // step with the other rank, whose first message comes after that.
  void reset(std::byte* signals, std::size_t bytes) {
    last_ = 0;
    *report() = {PollStatus::ready, 0};
    gpu::zero(signals, bytes);
    gpu::synchronize();
  }

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
    launch.wait = {.report = report(), .peer_gave_up = nullptr, .gave_up = nullptr, .timeout_ns = timeout_ns()};
    return launch;
  }
  [[nodiscard]] static Launch windows_of(Launch launch, const Window& window) {
    launch.window_messages = window.messages;
    launch.sends = window.sends(launch.leads);
    launch.receives = window.receives(launch.leads);
    return launch;
  }
  // The kernels may wait as long as the bytes of an exchange or a window take.
  static void wait_for_bytes(Launch& launch) {
    launch.wait.timeout_ns += ns_per_byte * launch.bytes * static_cast<std::uint64_t>(launch.window_messages);
  }

  template <class Parameters>
  void launch_long(void (*kernel)(Parameters), const Parameters& parameters, std::uint64_t bytes) const {
    const Shape shape = long_shape(bytes, blocks_);
    gpu::launch_together(kernel, shape.blocks, shape.threads, stream_.get(), parameters);
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

  void check_halos() const {
    const auto status = std::atomic_ref(report()->status).load(std::memory_order_acquire);
    if (status != PollStatus::ready) fail("halo " + std::to_string(report()->number), timeout_ns());
  }

  [[nodiscard]] double timeout_s() const { return timeout_s_; }  // how long a kernel may wait for the other one
  [[nodiscard]] std::uint64_t timeout_ns() const { return static_cast<std::uint64_t>(1e9 * timeout_s_); }
  [[nodiscard]] PollReport* report() const { return reinterpret_cast<PollReport*>(report_.data()); }
  [[nodiscard]] const gpu::Stream& stream() const { return stream_; }
  [[nodiscard]] unsigned blocks() const { return blocks_; }  // of a launch at most, the same on both ranks
  // The number of the last message, window or halo, the same on both ranks; complete() counts it up, or this.
  [[nodiscard]] std::uint64_t last() const { return last_; }
  std::uint64_t next() { return ++last_; }

 private:
  [[noreturn]] void fail(const std::string& what, std::uint64_t waited_ns) const {
    const std::string begin = name_ + std::string(": ");
    const std::string mine = std::to_string(ranks_[0]);
    const std::string other = "the device of rank " + std::to_string(ranks_[1]);
    if (report()->status == PollStatus::peer_gave_up) {
      throw std::runtime_error(begin + other + " timed out; rank " + mine + " stopped waiting for " + what);
    }
    throw std::runtime_error(begin + "the device of rank " + mine + " waited " +
                             std::to_string(waited_ns / 1'000'000'000) + " s for " + what + " from " + other +
                             ": its kernel is not running, or its stores do not arrive");
  }

  const char* name_;
  std::array<int, 2> ranks_{};  // this rank's and the other's number in the world
  bool leads_ = false;
  double timeout_s_ = 0;
  unsigned blocks_ = 1;
  std::uint64_t last_ = 0;
  gpu::Stream stream_;
  gpu::PinnedBuffer report_;
};

// With an inbox in each device's memory that the other device writes to.
class InboxDriven : public KernelDriven {
 public:
  using KernelDriven::KernelDriven;

  // In a line a number has 16 bits, in those of `device/word` 32. That it overflows is harmless: messages of one size
  // write the same lines, one after the other, so that no line still has the number of 2^16 messages ago. A window of
  // `device/word` may leave lines out, but not for 2^32 messages.
  void prepare(const View&) override { reset(mine_.data(), sizeof(Inbox)); }

  // The other rank closes its mapping of the inbox before this rank frees the inbox.
  void close() override {
    theirs_ = {};
    VOLLEY_MPI(MPI_Barrier(control_));
    mine_ = {};
    KernelDriven::close();
  }

 protected:
  template <class... Kernels>
  void open_inboxes(const RankGroup& pair, Kernels... kernels) {
    control_ = pair.control.get();
    open_launches(pair, kernels...);
    gpu::IpcHandle handle{};
    agreed_step(pair, [&] {
      mine_ = gpu::DeviceBuffer(sizeof(Inbox));
      handle = gpu::ipc_handle(mine_.data());
    });
    const gpu::IpcHandle theirs = exchanged_with_peer(handle, pair);
    agreed_step(pair, [&] { theirs_ = mapped_from_peer(theirs, pair); });
  }

  [[nodiscard]] Inbox* mine() const { return reinterpret_cast<Inbox*>(mine_.data()); }
  [[nodiscard]] Inbox* theirs() const { return reinterpret_cast<Inbox*>(theirs_.data()); }
  [[nodiscard]] PeerWait wait() const { return {report(), &mine()->gave_up, &theirs()->gave_up, timeout_ns()}; }

  [[nodiscard]] Launch launch_of(const View& view, std::uint64_t count) const {
    Launch launch = KernelDriven::launch_of(view, count);
    launch.inbox = mine();
    launch.inbox_there = theirs();
    launch.wait = wait();
    return launch;
  }

 private:
  MPI_Comm control_ = MPI_COMM_NULL;
  gpu::DeviceBuffer mine_;
  gpu::IpcMapping theirs_;
};

}  // namespace volley::device
