// Messages that pass through host memory in chunks, several in flight at a time in each direction.
//
// A chunk that leaves is copied from the device to a slot of host memory, and a ChunkTransport sends it. The
// ChunkTransport also receives chunks into slots, from which they are copied to the device. Chunks keep their order.
// While one chunk is copied, another is sent and a third is copied on the other side: the loop never waits for only one
// of these.
//
// A ChunkTransport has, for chunk number `i` counted from the start and slot number `s`:
//   divide(layout)                        how its host memory is divided; nothing is in flight then
//   out_slot(s), in_slot(s)               addresses
//   send(i, s, bytes)                     the slot contains the whole chunk: start to send it
//   sent(i, s)                            whether the slot can be filled again
//   sends_at_once                         a chunk that was sent arrives without further calls
//   expect(i, s, bytes)                   start to receive a chunk into this slot
//   arrived(i, s)                         whether the whole chunk is there
//   release(i, s)                         the chunk is on the device
//   open(pair, buffers), close(), acknowledge(), await_acknowledgement()
//                                         as in a Channel, if the pipeline is one (transport/host_driven.hpp)
// A Copies has: open(), prepare(slots),
//   begin_out(s, host, device, bytes), out_done(s)
//   begin_in(s, device, host, bytes), in_done(s)
//   synchronize()                         waits for copies that were reported as done before they were complete
#pragma once

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>

#include "transport/host_driven.hpp"

namespace volley {

// How a message is divided: into chunks of `chunk_bytes`, with at most `slots` of them in flight.
struct ChunkLayout {
  static constexpr std::size_t page_bytes = 4096;
  std::size_t chunk_bytes = 1;
  std::uint64_t slots = 1;

  // From one slot to the next: no two slots share a page.
  [[nodiscard]] constexpr std::size_t stride() const { return round_up(chunk_bytes, page_bytes); }
  [[nodiscard]] constexpr std::uint64_t ring_bytes() const { return slots * stride(); }  // of one direction
};

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;

// A row of a table: messages of up to `message_bytes` are divided into chunks of `chunk_bytes`.
struct ChunkRow {
  std::size_t message_bytes;
  std::size_t chunk_bytes;
};

// The most chunks in flight: the default number of messages in a window, where each message is one chunk.
inline constexpr std::size_t max_slots = 64;

// How a transport divides messages: by a table in ascending order, whose last row is also for longer messages. Each
// direction has a ring of `ring_bytes` of host memory.
//
// With a bandwidth of B and an overhead of o for each chunk, a message of N bytes in chunks of c takes about N/B + c/B
// (filling the pipeline) + o·N/c, which is least at c = sqrt(N·B·o).
struct ChunkPolicy {
  std::span<const ChunkRow> table;
  std::size_t ring_bytes;

  [[nodiscard]] constexpr ChunkLayout of(std::size_t bytes) const {
    auto row = table.begin();
    while (row + 1 != table.end() && row->message_bytes < bytes) ++row;
    ChunkLayout layout{std::min(bytes, row->chunk_bytes)};
    layout.slots = std::clamp<std::size_t>(ring_bytes / layout.stride(), 1, max_slots);
    return layout;
  }

  [[nodiscard]] Json facts() const {
    Json rows = Json::array();
    for (const auto& row : table) {
      rows.push_back({{"message_bytes", row.message_bytes}, {"chunk_bytes", row.chunk_bytes}});
    }
    return {{"chunks", rows}, {"ring_bytes", ring_bytes}};
  }
};

template <class ChunkTransport, class Copies>
class ChunkPipeline {
 public:
  [[nodiscard]] ChunkTransport& transport() { return transport_; }
  [[nodiscard]] Copies& copies() { return copies_; }

  void open(const RankGroup& pair, const Buffers& buffers) {
    transport_.open(pair, buffers);
    copies_.open();
  }
  void close() {
    transport_.close();
    copies_ = {};
  }

  // Prepares for messages of this length, divided equally on both sides. First completes the earlier messages.
  void prepare(std::size_t bytes, const ChunkLayout& layout) {
    clear();
    bytes_ = bytes;
    layout_ = layout;
    chunks_ = (bytes + layout.chunk_bytes - 1) / layout.chunk_bytes;
    out_.first = out_.run = out_.wanted;
    in_.first = in_.run = in_.wanted;
    transport_.divide(layout);
    copies_.prepare(layout.slots);
  }

  // Adds a message to send from, or to receive at, the view. Messages until finish() are `view.stride` apart.
  void start_send(const View& view) {
    if (out_.wanted == out_.run) send_ = view;
    out_.wanted += chunks_;
  }
  void start_recv(const View& view) {
    if (in_.wanted == in_.run) recv_ = view;
    in_.wanted += chunks_;
  }

  // Returns when every message that was added has left its buffer or is complete in its buffer.
  void finish() {
    unsigned polls = 0;
    while (!everything_left() || in_.ended < in_.wanted) {
      const bool sent = advance_out();
      const bool received = advance_in();
      if (!sent && !received) idle(polls);
    }
    copies_.synchronize();
    out_.run = out_.wanted;
    in_.run = in_.wanted;
  }

  void acknowledge() { transport_.acknowledge(); }
  void await_acknowledgement() {
    clear();
    transport_.await_acknowledgement();
  }

  // Returns when every slot is free again: everything that was sent has arrived.
  void clear() {
    unsigned polls = 0;
    while (out_.cleared < out_.ended) {
      if (!advance_out()) idle(polls);
    }
  }

 protected:
  // Counts begin at zero again, as those of a new segment do.
  void reset() { out_ = in_ = {}; }

 private:
  // Numbers of chunks of one direction, counted from the start. Each number is at most the one before it.
  struct Progress {
    std::uint64_t first = 0;     // of the messages of the present size
    std::uint64_t run = 0;       // of the messages since the last finish()
    std::uint64_t wanted = 0;    // asked for
    std::uint64_t expected = 0;  // in: announced to the transport
    std::uint64_t begun = 0;     // the copy from or to the device was begun
    std::uint64_t ended = 0;     // the copy is complete; out: sent, in: released
    std::uint64_t cleared = 0;   // out: the slot can be filled again
    [[nodiscard]] std::uint64_t steps() const { return expected + begun + ended + cleared; }
  };

  struct Chunk {
    std::uint64_t slot;
    std::uint64_t message;  // since the last finish()
    std::size_t offset;
    std::size_t bytes;
  };

  [[nodiscard]] Chunk chunk(const Progress& progress, std::uint64_t number) const {
    const std::uint64_t since = number - progress.first;
    const std::size_t offset = since % chunks_ * layout_.chunk_bytes;
    const std::uint64_t message = (number - progress.run) / chunks_;
    return {since % layout_.slots, message, offset, std::min(layout_.chunk_bytes, bytes_ - offset)};
  }

  // Between polls. Sometimes another process may run, so that more ranks than cores make progress: after at least 20 us
  // of polling, which no step of a small message takes.
  static void idle(unsigned& polls) {
    constexpr unsigned polls_before_yield = 4096;
    if (++polls % polls_before_yield == 0) std::this_thread::yield();
  }

  [[nodiscard]] bool everything_left() const {
    return out_.ended == out_.wanted && (ChunkTransport::sends_at_once || out_.cleared == out_.wanted);
  }

  // Advances the chunks that leave, the oldest first. Returns whether one of them advanced.
  bool advance_out() {
    const std::uint64_t before = out_.steps();
    if (out_.cleared < out_.ended && transport_.sent(out_.cleared, chunk(out_, out_.cleared).slot)) ++out_.cleared;
    if (out_.ended < out_.begun) {
      const Chunk oldest = chunk(out_, out_.ended);
      if (copies_.out_done(oldest.slot)) transport_.send(out_.ended++, oldest.slot, oldest.bytes);
    }
    if (out_.begun < out_.wanted && out_.begun - out_.cleared < layout_.slots) {
      const Chunk next = chunk(out_, out_.begun++);
      copies_.begin_out(next.slot, transport_.out_slot(next.slot), send_.message(next.message).send + next.offset,
                        next.bytes);
    }
    return out_.steps() != before;
  }

  // Advances the chunks that arrive, in the same way.
  bool advance_in() {
    const std::uint64_t before = in_.steps();
    if (in_.ended < in_.begun) {
      const Chunk oldest = chunk(in_, in_.ended);
      if (copies_.in_done(oldest.slot)) transport_.release(in_.ended++, oldest.slot);
    }
    if (in_.begun < in_.expected) {
      const Chunk next = chunk(in_, in_.begun);
      if (transport_.arrived(in_.begun, next.slot)) {
        copies_.begin_in(next.slot, recv_.message(next.message).recv + next.offset, transport_.in_slot(next.slot),
                         next.bytes);
        ++in_.begun;
      }
    }
    if (in_.expected < in_.wanted && in_.expected - in_.ended < layout_.slots) {
      const Chunk next = chunk(in_, in_.expected);
      transport_.expect(in_.expected++, next.slot, next.bytes);
    }
    return in_.steps() != before;
  }

  ChunkTransport transport_;
  Copies copies_;
  std::size_t bytes_ = 0;
  std::uint64_t chunks_ = 1;  // of one message
  ChunkLayout layout_;
  Progress out_;
  Progress in_;
  View send_;  // of the first message since the last finish()
  View recv_;
};

// --- what carries the chunks: MPI, or memory that both ranks map ----------------------------------------------------

// Chunks are at most this long: MPI counts bytes with an int.
inline constexpr std::size_t longest_mpi_chunk = std::size_t{1} << 30;

// Host memory of the kind `Buffer`: PageableBuffer or gpu::PinnedBuffer. When it grows, its contents are lost.
template <class Buffer>
class GrowingBuffer {
 public:
  void reserve(std::size_t bytes) {
    if (bytes <= bytes_) return;
    buffer_ = {};  // before the new one is allocated: memory may not have room for both
    bytes_ = 0;
    buffer_ = Buffer(bytes);
    bytes_ = bytes;
  }
  [[nodiscard]] std::byte* data() const noexcept { return buffer_.data(); }

 private:
  Buffer buffer_;
  std::size_t bytes_ = 0;
};

// Sends its chunks through MPI, from and to its own host memory.
template <class Buffer>
class MpiChunks : public MpiChannel {
 public:
  static constexpr bool sends_at_once = false;

  void divide(const ChunkLayout& layout) {
    stride_ = layout.stride();
    sending_.assign(layout.slots, MPI_REQUEST_NULL);
    receiving_.assign(layout.slots, MPI_REQUEST_NULL);
  }

  // Allocates the slots of the directions that are used, unless the present memory is large enough.
  void reserve(bool sends, bool receives) {
    if (sends) out_.reserve(sending_.size() * stride_);
    if (receives) in_.reserve(receiving_.size() * stride_);
  }
  void close() {
    MpiChannel::close();
    out_ = {};
    in_ = {};
  }

  [[nodiscard]] std::byte* out_slot(std::uint64_t slot) { return out_.data() + slot * stride_; }
  [[nodiscard]] std::byte* in_slot(std::uint64_t slot) { return in_.data() + slot * stride_; }

  using MpiChannel::send;
  void send(std::uint64_t, std::uint64_t slot, std::size_t bytes) {
    VOLLEY_MPI(MPI_Isend(out_slot(slot), static_cast<int>(bytes), MPI_BYTE, peer_, chunk_tag, comm_, &sending_[slot]));
  }
  [[nodiscard]] bool sent(std::uint64_t, std::uint64_t slot) { return complete(sending_[slot]); }

  void expect(std::uint64_t, std::uint64_t slot, std::size_t bytes) {
    VOLLEY_MPI(MPI_Irecv(in_slot(slot), static_cast<int>(bytes), MPI_BYTE, peer_, chunk_tag, comm_, &receiving_[slot]));
  }
  [[nodiscard]] bool arrived(std::uint64_t, std::uint64_t slot) { return complete(receiving_[slot]); }
  void release(std::uint64_t, std::uint64_t) {}

 private:
  static constexpr int chunk_tag = 30;

  static bool complete(MPI_Request& request) {
    int done = 0;
    VOLLEY_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    return done != 0;
  }

  std::size_t stride_ = 0;
  std::vector<MPI_Request> sending_;
  std::vector<MPI_Request> receiving_;
  GrowingBuffer<Buffer> out_;
  GrowingBuffer<Buffer> in_;
};

// Its slots are in memory that both ranks map. Nothing is sent: two counts say which rank may use which slot.
//
// Each direction is a ring with one writer and one reader. `filled` counts the chunks that the sender has written,
// `emptied` those that the receiver has read. Each count is written by one side only and has its own cache lines. The
// sender increases `filled` (release) when its host has seen the copy from the device complete: the bytes are then in
// host memory, visible to a thread that reads the count (acquire). The receiver increases `emptied` when its host has
// seen the copy to its device complete. So the last value of `emptied` means that everything has arrived.
//
// Instead, the GPU could write the counts in stream order (cuStreamWriteValue32), and the other GPU could wait for them
// (cuStreamWaitValue32). That saves the sender's host a query, half a microsecond, and gains no bandwidth, because the
// copies of several chunks are enqueued ahead in both cases; but a wait in a stream has no deadline and cannot be
// cancelled, and a write in a stream costs the GPU as much between copies as the event.
class SegmentChunks {
 public:
  static constexpr bool sends_at_once = true;

  [[nodiscard]] static constexpr std::size_t segment_bytes(std::size_t ring_bytes) {
    return header_bytes + 2 * ring_bytes;
  }
  // Writes the counts of a new segment. Called once, before a rank opens it.
  static void initialise(std::byte* segment) { new (segment) Header; }

  // `self` 0 sends through the first ring and receives through the second, 1 the other way round.
  void open(std::byte* segment, std::size_t ring_bytes, int self) {
    auto* header = std::launder(reinterpret_cast<Header*>(segment));
    std::byte* rings = segment + header_bytes;
    const std::size_t out = self == 0 ? 0 : 1;
    out_ = {&header->counts[out], rings + out * ring_bytes};
    in_ = {&header->counts[1 - out], rings + (1 - out) * ring_bytes};
  }

  void divide(const ChunkLayout& layout) { stride_ = layout.stride(); }

  [[nodiscard]] std::byte* out_slot(std::uint64_t slot) { return out_.slots + slot * stride_; }
  [[nodiscard]] std::byte* in_slot(std::uint64_t slot) { return in_.slots + slot * stride_; }

  void send(std::uint64_t chunk, std::uint64_t, std::size_t) {
    out_.counts->filled.store(chunk + 1, std::memory_order_release);
  }
  [[nodiscard]] bool sent(std::uint64_t chunk, std::uint64_t) {
    return out_.counts->emptied.load(std::memory_order_acquire) > chunk;
  }
  void expect(std::uint64_t, std::uint64_t, std::size_t) {}
  [[nodiscard]] bool arrived(std::uint64_t chunk, std::uint64_t) {
    return in_.counts->filled.load(std::memory_order_acquire) > chunk;
  }
  void release(std::uint64_t chunk, std::uint64_t) { in_.counts->emptied.store(chunk + 1, std::memory_order_release); }

  // The receiver's last count says that everything is on its device: that is the acknowledgement.
  void acknowledge() {}
  void await_acknowledgement() {}

 private:
  // Two lines of 64 bytes: processors fetch lines in pairs.
  static constexpr std::size_t line_bytes = 128;
  static constexpr std::size_t header_bytes = 4096;  // a page, so that the rings begin on one

  struct Counts {
    alignas(line_bytes) std::atomic<std::uint64_t> filled{0};
    alignas(line_bytes) std::atomic<std::uint64_t> emptied{0};
  };
  struct Header {
    Counts counts[2];
  };
  static_assert(sizeof(Header) <= header_bytes);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "two processes share the counts");

  struct Ring {
    Counts* counts = nullptr;
    std::byte* slots = nullptr;
  };

  Ring out_;
  Ring in_;
  std::size_t stride_ = 0;
};

}  // namespace volley
