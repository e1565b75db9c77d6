// Messages on their way through host memory in chunks, several under way at a time in each direction.
//
// A chunk that leaves is copied from the device to a place in host memory and handed to a Link; a chunk that arrives is
// found by the Link in a place and copied to the device. Chunks keep their order. While one is being copied another
// travels and a third is copied on the other side: the loop here never waits for one thing alone.
//
// A Link has, for chunk number `i` counted from the start and place number `p`:
//   prepare(cut)                          how its host memory is cut; nothing is under way then
//   out_place(p), in_place(p)             addresses
//   hand_over(i, p, bytes)                the place holds the whole chunk: let it travel
//   cleared(i, p)                         whether the place can be filled again
//   leaves_at_once                        what is handed over needs no further call to arrive
//   expect(i, p, bytes)                   a chunk will come to this place
//   arrived(i, p)                         whether it is there, whole
//   give_back(i, p)                       the chunk is on the device
// A Copies has: prepare(places), begin_out(p, host, device, bytes), out_done(p), begin_in(p, device, host, bytes),
//   in_done(p), settle()                  what the copies put off is complete
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>

#include "transport/transport.hpp"

namespace volley {

// Between two looks that found nothing: now and then the scheduler may run someone else, so that ranks that outnumber
// the cores go on.
class SpinWait {
 public:
  void wait() {
    if (++looks_ % looks_before_yield == 0) std::this_thread::yield();
  }

 private:
  // At least 20 us of polling: no step of a small message takes that long, so that none ever waits for the scheduler.
  static constexpr unsigned looks_before_yield = 4096;
  unsigned looks_ = 0;
};

// How a message is cut: pieces of `chunk_bytes`, of which `places` are under way at most.
struct ChunkLayout {
  std::size_t chunk_bytes = 1;
  std::uint64_t places = 1;

  // Bytes from one place to the next: places begin on pages, so that no two share one.
  [[nodiscard]] constexpr std::size_t stride() const {
    return (chunk_bytes + page_bytes - 1) / page_bytes * page_bytes;
  }
  static constexpr std::size_t page_bytes = 4096;
};

// A row of a table that says how messages are cut: those of up to `message_bytes` into pieces of `chunk_bytes`.
struct ChunkRow {
  std::size_t message_bytes;
  std::size_t chunk_bytes;
};

// More chunks than this are never under way: the default window, each message one chunk.
inline constexpr std::size_t most_places = 64;

// How a transport rows messages: by a table in ascending order, whose last row holds for whatever is longer, for a ring
// of `ring_bytes` of host memory a direction.
struct ChunkPolicy {
  std::span<const ChunkRow> table;
  std::size_t ring_bytes;

  [[nodiscard]] constexpr ChunkLayout of(std::size_t bytes) const {
    auto row = table.begin();
    while (row + 1 != table.end() && row->message_bytes < bytes) ++row;
    ChunkLayout cut{std::min(bytes, row->chunk_bytes)};
    cut.places = std::clamp<std::size_t>(ring_bytes / cut.stride(), 1, most_places);
    return cut;
  }

  // For the transport's record.
  [[nodiscard]] Facts facts() const {
    std::vector<Facts> rows;
    for (const auto& row : table) {
      rows.push_back({{"message_bytes", row.message_bytes}, {"chunk_bytes", row.chunk_bytes}});
    }
    return {{"chunks", rows}, {"ring_bytes", ring_bytes}};
  }
};

template <class Link, class Copies>
class ChunkPipeline {
 public:
  [[nodiscard]] Link& link() { return link_; }
  [[nodiscard]] Copies& copies() { return copies_; }

  // Makes ready for messages of `bytes` bytes, cut alike on both sides. What the last ones left is cleared first.
  void prepare(std::size_t bytes, const ChunkLayout& cut) {
    clear();
    bytes_ = bytes;
    layout_ = cut;
    chunks_ = (bytes + cut.chunk_bytes - 1) / cut.chunk_bytes;
    out_.first = out_.wanted;
    in_.first = in_.wanted;
    link_.prepare(cut);
    copies_.prepare(cut.places);
  }

  // One more message is to leave from, or to arrive at, the view. All messages until the next run() share the view.
  void add_send(const View& view) {
    send_ = view.send;
    out_.wanted += chunks_;
  }
  void add_recv(const View& view) {
    recv_ = view.recv;
    in_.wanted += chunks_;
  }

  // Until every message that was added has left its buffer, or lies whole in it.
  void run() {
    SpinWait spin;
    while (!everything_left() || in_.ended < in_.wanted) {
      const bool sent = turn_out();
      const bool received = turn_in();
      if (!sent && !received) spin.wait();
    }
    copies_.settle();
  }

  // Until every place is free again: what was sent has arrived.
  void clear() {
    SpinWait spin;
    while (out_.cleared < out_.ended) {
      if (!turn_out()) spin.wait();
    }
  }

 private:
  // Chunks of one direction, counted from the start of time; each count follows the one before it.
  struct ChunkCounts {
    std::uint64_t first = 0;     // of the messages of the present size
    std::uint64_t wanted = 0;    // asked for
    std::uint64_t expected = 0;  // in: announced to the link
    std::uint64_t begun = 0;     // the copy from or to the device was begun
    std::uint64_t ended = 0;     // the copy is complete; out: handed over, in: given back
    std::uint64_t cleared = 0;   // out: the place can be filled again
    [[nodiscard]] std::uint64_t steps() const { return expected + begun + ended + cleared; }
  };

  struct Chunk {
    std::uint64_t place;
    std::size_t offset;
    std::size_t bytes;
  };

  [[nodiscard]] Chunk piece(const ChunkCounts& counts, std::uint64_t chunk) const {
    const std::uint64_t since = chunk - counts.first;
    const std::size_t offset = since % chunks_ * layout_.chunk_bytes;
    return {since % layout_.places, offset, std::min(layout_.chunk_bytes, bytes_ - offset)};
  }

  [[nodiscard]] bool everything_left() const {
    return out_.ended == out_.wanted && (Link::leaves_at_once || out_.cleared == out_.wanted);
  }

  // What can be done for the chunks that leave, the furthest first. Returns whether there was anything.
  bool turn_out() {
    const std::uint64_t before = out_.steps();
    if (out_.cleared < out_.ended && link_.cleared(out_.cleared, piece(out_, out_.cleared).place)) ++out_.cleared;
    if (out_.ended < out_.begun) {
      const Chunk oldest = piece(out_, out_.ended);
      if (copies_.out_done(oldest.place)) link_.hand_over(out_.ended++, oldest.place, oldest.bytes);
    }
    if (out_.begun < out_.wanted && out_.begun - out_.cleared < layout_.places) {
      const Chunk next = piece(out_, out_.begun++);
      copies_.begin_out(next.place, link_.out_place(next.place), send_ + next.offset, next.bytes);
    }
    return out_.steps() != before;
  }

  // The same for the chunks that arrive.
  bool turn_in() {
    const std::uint64_t before = in_.steps();
    if (in_.ended < in_.begun) {
      const Chunk oldest = piece(in_, in_.ended);
      if (copies_.in_done(oldest.place)) link_.give_back(in_.ended++, oldest.place);
    }
    if (in_.begun < in_.expected) {
      const Chunk next = piece(in_, in_.begun);
      if (link_.arrived(in_.begun, next.place)) {
        copies_.begin_in(next.place, recv_ + next.offset, link_.in_place(next.place), next.bytes);
        ++in_.begun;
      }
    }
    if (in_.expected < in_.wanted && in_.expected - in_.ended < layout_.places) {
      const Chunk next = piece(in_, in_.expected);
      link_.expect(in_.expected++, next.place, next.bytes);
    }
    return in_.steps() != before;
  }

  Link link_;
  Copies copies_;
  std::size_t bytes_ = 0;
  std::uint64_t chunks_ = 1;  // of one message
  ChunkLayout layout_;
  ChunkCounts out_;
  ChunkCounts in_;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
};

}  // namespace volley
