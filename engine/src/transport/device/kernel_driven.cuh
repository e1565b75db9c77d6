// The timed loops of all transports whose kernels on two devices exchange messages without their hosts
// (gpu/kernels/messages.cuh), and what the host does for a launch.
//
// The loops go over a Wire, one for each thread and launch. It is made from Wire::Launch, the parameters of a launch: a
// device::Launch, or a structure that derives from one. All threads of the grid make each call of a Wire:
//   put(from, to)     store one message: `bytes` at `send + from`, to `recv + to` in the other device's memory
//   announce(number)  tell the other device that this block's part of all that was put is there
//   await(number)     return when all blocks of the other device have announced `number`: what they put is in its
//                     place. false: they do not. Every block waits for *all* blocks, so that each knows that the whole
//                     message has arrived, without a grid-wide barrier
//   acknowledge(number), await_acknowledgement(number)   of a window; only the receiver's first block acknowledges
//   put_and_announce(from, to, number)                   optional: both in one
//   end_window(acknowledged)                             optional: from announce() to await_acknowledgement()
//   with_wire(launch, body)                              optional, static: calls body(wire) with all threads
#pragma once

#include <atomic>

#include "gpu/kernel_launch.cuh"
#include "gpu/kernels/messages.cuh"
#include "transport/peer_memory.hpp"

namespace volley::device {

using namespace gpu::kernels;

template <class Wire, class Body>
__device__ void with_wire(const typename Wire::Launch& launch, const Body& body) {
  if constexpr (requires { Wire::with_wire(launch, body); }) {
    Wire::with_wire(launch, body);
  } else {
    const Wire wire(launch);
    body(wire);
  }
}

template <class Wire, bool stamped>
__global__ void __launch_bounds__(max_threads, 1) long_round_trips(const typename Wire::Launch launch) {
  with_wire<Wire>(launch, [&](const auto& wire) {
    std::uint64_t from = send_offset(launch, 1);
    std::uint64_t to = recv_offset(launch, 1);
    for (std::uint64_t exchange = 1; exchange <= launch.count; ++exchange) {
      const std::uint64_t number = launch.last + exchange;
      if (!launch.leads && !wire.await(number)) return;
      if constexpr (requires { wire.put_and_announce(from, to, number); }) {
        wire.put_and_announce(from, to, number);
      } else {
        wire.put(from, to);
        wire.announce(number);
      }
      stamp<stamped>(launch, exchange);
      from = send_offset(launch, exchange + 1);
      to = recv_offset(launch, exchange + 1);
      if (launch.leads && !wire.await(number)) return;
    }
  });
}

// The messages of a window are put one after the other and announced together. Their order does not matter: they have
// one place and equal contents, or a place each. The sender begins the next window only when this one has arrived or,
// in both directions, when all blocks have the other rank's messages of this one (Window::acknowledged).
template <class Wire>
__global__ void __launch_bounds__(max_threads, 1) exchange_windows(const typename Wire::Launch launch) {
  with_wire<Wire>(launch, [&](const auto& wire) {
    for (std::uint64_t window = 1; window <= launch.count; ++window) {
      const std::uint64_t number = launch.last + window;
      if (launch.sends) {
        const std::uint64_t from = send_offset(launch, window);
        const std::uint64_t to = recv_offset(launch, window);
        for (int message = 0; message < launch.window_messages; ++message) {
          const std::uint64_t place = static_cast<std::uint64_t>(message) * launch.stride;
          wire.put(from + place, to + place);
        }
      }
      const bool acknowledged = !launch.sends || !launch.receives || window == launch.count;
      if constexpr (requires { wire.end_window(acknowledged); }) {
        wire.end_window(acknowledged);
      } else {
        if (launch.sends) wire.announce(number);
        if (launch.receives && (blockIdx.x == 0 || !acknowledged)) {
          if (!wire.await(number)) return;
          if (acknowledged) wire.acknowledge(number);
        }
        if (launch.sends && acknowledged && !wire.await_acknowledgement(number)) return;
      }
    }
  });
}

// --- the host --------------------------------------------------------------------------------------------------------

// A transport whose messages are exchanged by kernels on both devices, which wait for each other without their hosts.
// Each rank has a stream, and a word in host memory where a kernel reports what it waited for in vain.
class KernelDriven : public Transport, public Messages, public Stamps {
 public:
  explicit KernelDriven(const char* name) : name_(name) {}

  std::string unavailable(const Context& context, const RankGroup& pair) override {
    if (context.gpu(pair.rank(0)) != context.gpu(pair.rank(1))) return without_peer_access(context, pair);
    return "needs two devices: kernels of two processes take turns on one device, so they cannot answer each other";
  }
  [[nodiscard]] Driver* messages() override { return this; }
  [[nodiscard]] std::string once_a_batch() const override { return "the launch of a kernel"; }
  [[nodiscard]] Stamps* stamps() override { return this; }
  void take() override {
    if (stamps_.data() == nullptr) stamps_ = gpu::DeviceValues<MessageStamp>(most_counts);
  }
  // A message is sent when the one before it has been answered. The clock of a multiprocessor has a resolution of
  // about a nanosecond; the clock of the device, which may have one of a microsecond, tells its rate in this launch.
  [[nodiscard]] std::vector<double> singles_s() override {
    if (stamped_ < least_counts) return {};
    std::vector<MessageStamp> sent(stamped_);
    gpu::copy<gpu::to_host>(sent.data(), stamps_.data(), stamped_ * sizeof sent[0]);
    const auto launch_s = 1e-9 * static_cast<double>(sent.back().ns - sent.front().ns);
    const double clock_s = launch_s / static_cast<double>(sent.back().clock - sent.front().clock);
    std::vector<double> singles_s;
    for (std::size_t i = 2; i < sent.size(); ++i) {
      singles_s.push_back(static_cast<double>(sent[i].clock - sent[i - 1].clock) * clock_s);
    }
    return singles_s;
  }
  void limit_waits(double seconds) override { timeout_s_ = seconds; }
  void close() override {
    stamps_ = {};
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
      report_ = gpu::PinnedValues<PollReport>(1);
      blocks_ = std::min({max_blocks, gpu::resident_blocks(kernels, max_threads)...});
    });
    blocks_ = std::min(blocks_, exchanged_with_peer(blocks_, pair));
  }

  // Numbers start again when the memory has been cleared that the other device signals in. The caller agrees on this
  // step with the other rank, whose first message comes after that.
  void reset(void* signals, std::size_t bytes) {
    last_ = 0;
    *report_.data() = {PollStatus::ready, 0};
    gpu::zero(signals, bytes);
  }

  // The parameters of the next launch, for `count` exchanges; a derived class adds the memory of the signals.
  [[nodiscard]] Launch launch_of(const View& view, std::uint64_t count) {
    stamped_ = leads_ && stamps_.data() != nullptr && count <= most_counts ? count : 0;
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
    launch.stamps = stamped_ > 0 ? stamps_.data() : nullptr;
    launch.wait = {.report = report_.data(), .peer_gave_up = nullptr, .gave_up = nullptr, .timeout_ns = timeout_ns()};
    return launch;
  }
  [[nodiscard]] static Launch windows_of(Launch launch, const Window& window) {
    launch.window_messages = window.messages;
    launch.sends = window.sends(launch.leads);
    launch.receives = window.receives(launch.leads);
    return launch;
  }
  // Waits for a launch that used `numbers` numbers. Throws if its messages did not arrive.
  void complete(const Launch& launch, std::uint64_t numbers) {
    stream_.synchronize();
    if (report_.data()->status != PollStatus::ready) {
      const char* what = launch.window_messages > 1 ? "window " : "message ";
      fail(what + std::to_string(report_.data()->number) + " of " + std::to_string(launch.bytes) + " B",
           launch.wait.timeout_ns);
    }
    last_ += numbers;
  }

  void check_halos() const {
    const auto status = std::atomic_ref(report_.data()->status).load(std::memory_order_acquire);
    if (status != PollStatus::ready) fail("halo " + std::to_string(report_.data()->number), timeout_ns());
  }

  [[nodiscard]] double timeout_s() const { return timeout_s_; }  // how long a kernel may wait for the other one
  [[nodiscard]] std::uint64_t timeout_ns() const { return static_cast<std::uint64_t>(1e9 * timeout_s_); }
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
    if (report_.data()->status == PollStatus::peer_gave_up) {
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
  gpu::PinnedValues<PollReport> report_;
  gpu::DeviceValues<MessageStamp> stamps_;
  std::uint64_t stamped_ = 0;  // exchanges of the last launch with stamps
};

// A transport whose messages, or those that are not short, go over a wire.
template <class Wire>
class WireDriven : public KernelDriven {
 public:
  using KernelDriven::KernelDriven;
  void round_trips(const View& view, std::uint64_t exchanges) override {
    const Launch launch = launch_of(view, exchanges);
    exchange(launch.stamps ? long_round_trips<Wire, true> : long_round_trips<Wire, false>, launch);
  }
  void windows(const View& view, std::uint64_t count, const Window& window) override {
    exchange(exchange_windows<Wire>, windows_of(launch_of(view, count), window));
  }

 protected:
  void open_launches(const RankGroup& pair) {
    KernelDriven::open_launches(pair, long_round_trips<Wire, false>, long_round_trips<Wire, true>,
                                exchange_windows<Wire>);
  }

  // The parameters of a launch, with what the wire needs.
  [[nodiscard]] virtual typename Wire::Launch with_wire(Launch launch) const = 0;
  virtual void await_end(const Launch& launch) { complete(launch, launch.count); }

 private:
  // The kernels may wait as long as the bytes of an exchange or a window take.
  void exchange(void (*kernel)(typename Wire::Launch), Launch launch) {
    launch.wait.timeout_ns += ns_per_byte * launch.bytes * static_cast<std::uint64_t>(launch.window_messages);
    const Shape shape = long_shape(launch.bytes, blocks());
    gpu::launch_together(kernel, shape.blocks, shape.threads, stream().get(), with_wire(launch));
    await_end(launch);
  }
};

// With an inbox in each device's memory that the other device writes to.
template <class Base>
class InboxDriven : public Base {
 public:
  using Base::Base;

  // In a line a number has 16 bits, in those of `device/word` 32. That it overflows is harmless: messages of one size
  // write the same lines, one after the other, so that no line still has the number of 2^16 messages ago. A window of
  // `device/word` may leave lines out, but not for 2^32 messages.
  void prepare(const View&, const std::optional<Window>&) override { this->reset(mine_.data(), sizeof(Inbox)); }

  // The other rank closes its mapping of the inbox before this rank frees the inbox.
  void close() override {
    theirs_ = {};
    if (control_ != MPI_COMM_NULL) VOLLEY_MPI(MPI_Barrier(control_));  // else open() did not begin, on both ranks
    control_ = MPI_COMM_NULL;
    mine_ = {};
    Base::close();
  }

 protected:
  void open_inboxes(const RankGroup& pair) {
    control_ = pair.control.get();
    this->open_launches(pair);
    gpu::IpcHandle handle{};
    agreed_step(pair, [&] {
      mine_ = gpu::DeviceValues<Inbox>(1);
      handle = gpu::ipc_handle(mine_.data());
    });
    const gpu::IpcHandle theirs = exchanged_with_peer(handle, pair);
    agreed_step(pair, [&] { theirs_ = mapped_from_peer(theirs, pair); });
  }

  [[nodiscard]] Inbox* mine() const { return mine_.data(); }
  [[nodiscard]] Inbox* theirs() const { return reinterpret_cast<Inbox*>(theirs_.data()); }

  [[nodiscard]] Launch with_inboxes(Launch launch) const {
    launch.inbox = mine();
    launch.inbox_there = theirs();
    launch.wait.peer_gave_up = &mine()->gave_up;
    launch.wait.gave_up = &theirs()->gave_up;
    return launch;
  }

 private:
  MPI_Comm control_ = MPI_COMM_NULL;
  gpu::DeviceValues<Inbox> mine_;
  gpu::IpcMapping theirs_;
};

}  // namespace volley::device
