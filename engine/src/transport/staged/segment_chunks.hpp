// The chunk transport of a pipeline whose slots are in memory that both ranks map. Nothing is sent: two counts say
// which rank may use which slot.
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
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "transport/staged/chunk_pipeline.hpp"

namespace volley {

class SegmentChunks {
 public:
  static constexpr bool sends_at_once = true;

  // Bytes of a segment whose rings hold `ring_bytes` each.
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

  void prepare(const ChunkLayout& layout) { stride_ = layout.stride(); }

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
