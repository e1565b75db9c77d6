// A transport: one way for the bytes of a message to get from a buffer of one rank to a buffer of another.
#pragma once

#include <cstring>

#include "group/context.hpp"
#include "measure/timing_loop.hpp"

namespace volley {

// The part of the watchdog's time that a kernel may wait: the device can then report before the watchdog ends the job.
inline constexpr double wait_share = 0.6;

class HaloExchange;
class Collectives;

// An end of a transport, and what it carries: messages between two ranks, halos between two neighbours, collectives
// among the ranks of a group. All ranks make every call, except `unavailable`, `refuses`, `host_memory_bytes`,
// `limit_waits`, `threads`, `keeps_place`, `restarts`, `once_a_batch`, `stamps` and `facts`.
class Transport {
 public:
  virtual ~Transport() = default;

  // Why this rank cannot use the transport; empty if it can. Must not communicate: the caller compares the answers.
  [[nodiscard]] virtual std::string unavailable(const Context& context, const RankGroup& group) = 0;

  // The memory that this transport's messages must be in, where the arena's cannot serve; null where it can. Called
  // once, if all ranks can use the transport. The memory may refer to the group. If one rank cannot, it throws a
  // std::exception, and the others do not wait for it.
  [[nodiscard]] virtual std::unique_ptr<Memory> own_memory(const RankGroup&) { return nullptr; }

  // A kernel that waits for the other rank's gives up after this many seconds and says what it waited for. Called
  // before open(); `wait_share` says after how many.
  virtual void limit_waits(double) {}

  // Prepares for messages within `buffers`. If one rank cannot, it throws a std::exception that says why; no rank then
  // waits for another, and all call close().
  virtual void open(const RankGroup& group, const Buffers& buffers) = 0;

  // Releases everything, also after a failed open(), and mappings of another rank's memory before that rank frees it.
  virtual void close() = 0;

  // What it carries once it is open; null: nothing of that kind.
  [[nodiscard]] virtual Driver* messages() { return nullptr; }
  [[nodiscard]] virtual HaloExchange* halo() { return nullptr; }
  [[nodiscard]] virtual Collectives* collectives() { return nullptr; }

  // Why it carries no messages of this length; empty if it does.
  [[nodiscard]] virtual std::string refuses(std::size_t bytes) const {
    return bytes > 0 ? "" : "a message of 0 B is measured with host, aware and their requests only";
  }

  // The most bytes of host memory that this rank takes for messages of this length besides the buffers: for round
  // trips, or for windows if there is one.
  [[nodiscard]] virtual std::uint64_t host_memory_bytes(std::uint64_t, const std::optional<Window>&) const { return 0; }

  // Threads of a rank that share the windows of a batch.
  [[nodiscard]] virtual int threads() const { return 1; }

  // Why the messages of a batch must have one place, so that they stay in caches; empty if they may have several.
  [[nodiscard]] virtual std::string keeps_place() const { return {}; }

  // Whether it makes something for each place of a message, and uses it again in the next batch: then batches have few
  // places.
  [[nodiscard]] virtual bool restarts() const { return false; }

  // What a batch of round trips or operations takes once, however many it has: of a batch of one it would be a part of
  // the time. Empty if there is nothing of that kind.
  [[nodiscard]] virtual std::string once_a_batch() const { return {}; }

  // Times the counts of such a batch one by one; null: the transport cannot.
  [[nodiscard]] virtual Stamps* stamps() { return nullptr; }

  // Names and values for the transport's record: an object.
  [[nodiscard]] virtual Json facts() const { return Json::object(); }
};

// Moves messages between two ranks. All three are timed: they return when the data is usable.
class Messages : public Driver {
 public:
  void run(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
    if (window) windows(view, count, *window);
    else round_trips(view, count);
  }

  // `exchanges` round trips: the first rank sends and then receives, the second the other way round. The answer starts
  // only when the whole message has arrived.
  virtual void round_trips(const View& view, std::uint64_t exchanges) = 0;

  // `count` times: `window.messages` messages in flight at once, then one acknowledgement (Window::acknowledged).
  virtual void windows(const View& view, std::uint64_t count, const Window& window) = 0;
};

// A halo where it lies in a field in host memory: points that are some bytes apart.
struct HaloLine {
  std::size_t points = 0;
  std::size_t point_bytes = 0;
  std::size_t step_bytes = 0;  // from one point to the next

  // Copies the line at `line` to bytes next to each other, and back.
  void pack(std::byte* to, const std::byte* line) const {
    for (std::size_t i = 0; i < points; ++i) std::memcpy(to + i * point_bytes, line + i * step_bytes, point_bytes);
  }
  void unpack(std::byte* line, const std::byte* from) const {
    for (std::size_t i = 0; i < points; ++i) std::memcpy(line + i * step_bytes, from + i * point_bytes, point_bytes);
  }
};

// Exchanges halos between two neighbours. Both ranks make these calls, except `host_driven` and `staged_through_host`,
// with views of one size at the same offsets in the buffers. For a halo in device memory:
//   enqueue_send(view, cuda_stream)  after the kernel that writes view.send
//   start(view), finish()            by the host when the stream has executed that; not if `host_driven` is false
//   enqueue_recv(view, cuda_stream)  before the kernel that reads view.recv
// A halo in host memory needs only start() and finish().
//
// The halos use two places of the buffers alternately. A rank sends halo n + 2 into the place of halo n only after it
// has received halo n + 1; the neighbour has sent that after it had read halo n. So no halo is overwritten while it is
// read.
class HaloExchange {
 public:
  virtual ~HaloExchange() = default;

  // Prepares for halos as long as this view, anywhere in the buffers. After the transport's open().
  virtual void open_halo(const View&) {}
  // In place of open_halo(), for halos that are sent and received where they lie in a field: the views of start() then
  // point at lines like this one. False where the transport wants them in its buffers.
  [[nodiscard]] virtual bool open_line(const HaloLine&) { return false; }
  // Whether start() and finish() move data.
  [[nodiscard]] virtual bool host_driven() const { return true; }
  // Whether enqueue_send() and enqueue_recv() enqueue copies to and from host memory.
  [[nodiscard]] virtual bool staged_through_host() const { return false; }

  virtual void enqueue_send(const View&, gpu::StreamHandle) {}
  // Starts to send this rank's halo and to receive the neighbour's.
  virtual void start(const View&) {}
  // Calls a library that makes progress only in its calls. Throws if it reports an error.
  virtual void progress() {}
  // Returns when the neighbour's halo is usable and this rank's may be overwritten.
  virtual void finish() {}
  virtual void enqueue_recv(const View&, gpu::StreamHandle) {}
};

}  // namespace volley
