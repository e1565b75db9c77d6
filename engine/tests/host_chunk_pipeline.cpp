// The staged transports' pipeline between two threads, over a segment that both have mapped: host memory plays the
// devices, and copies that end later than they are begun play the copy engines.
#include "expect.hpp"
#include "group/job.hpp"
#include "messages/memory.hpp"
#include "transport/shared_segment.hpp"
#include "transport/staged/chunks.hpp"

#include <array>
#include <cstring>
#include <latch>
#include <random>
#include <thread>
#include <vector>

using namespace volley;

namespace {

constexpr std::size_t ring_bytes = std::size_t{1} << 16;
constexpr std::size_t segment_bytes = SegmentChunks::segment_bytes(ring_bytes);

// Does a copy only when it has been asked after it a few times: whoever uses the data earlier finds something else.
class LateCopies {
 public:
  void prepare(std::uint64_t slots) {
    out_.assign(slots, {});
    in_.assign(slots, {});
  }
  void begin_out(std::uint64_t slot, std::byte* host, const std::byte* device, std::size_t bytes) {
    begin(out_.at(slot), host, device, bytes);
  }
  void begin_in(std::uint64_t slot, std::byte* device, const std::byte* host, std::size_t bytes) {
    begin(in_.at(slot), device, host, bytes);
  }
  [[nodiscard]] bool out_done(std::uint64_t slot) { return done(out_.at(slot)); }
  [[nodiscard]] bool in_done(std::uint64_t slot) { return done(in_.at(slot)); }
  void synchronize() {}

 private:
  struct Copy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
    unsigned looks = 0;
  };
  void begin(Copy& copy, std::byte* to, const std::byte* from, std::size_t bytes) {
    EXPECT(copy.to == nullptr);  // the slot is free
    copy = {to, from, bytes, static_cast<unsigned>(random_()) % 4};
  }
  static bool done(Copy& copy) {
    if (copy.looks-- > 0) return false;
    std::memcpy(copy.to, copy.from, copy.bytes);
    copy = {};
    return true;
  }
  std::minstd_rand random_;
  std::vector<Copy> out_;
  std::vector<Copy> in_;
};

// Watches over the slots that wait for a chunk: MPI writes to those, though a segment knows nothing of them.
class WatchedSegment : public SegmentChunks {
 public:
  void divide(const ChunkLayout& layout) {
    SegmentChunks::divide(layout);
    waiting_.assign(layout.slots, false);
  }
  void expect(std::uint64_t, std::uint64_t slot, std::size_t) {
    EXPECT(!waiting_.at(slot));
    waiting_.at(slot) = true;
  }
  void release(std::uint64_t chunk, std::uint64_t slot) {
    EXPECT(waiting_.at(slot));
    waiting_.at(slot) = false;
    SegmentChunks::release(chunk, slot);
  }

 private:
  std::vector<bool> waiting_;
};

using TestPipeline = ChunkPipeline<WatchedSegment, LateCopies>;

struct Case {
  std::size_t bytes;
  ChunkLayout layout;
  std::uint64_t messages;  // in one run, each with a place of its own
};

// Sizes and layouts in an order in which the ring is divided anew while the other side may still be emptying it.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::size_t bytes : {1, 4096, 8, 5000, 100000, 65536, 131073}) {
    for (const std::size_t chunk : {1000, 4096, 16384}) {
      for (const std::uint64_t slots : {1, 2, 4}) all.push_back({bytes, {std::min(bytes, chunk), slots}, 3});
    }
  }
  return all;
}

// One side: sends its messages and receives the other's, all at once or in turn as in a ping-pong.
void side(SharedSegment& segment, int self, std::latch& ready) {
  auto memory = make_host_memory();
  const Buffers buffers = memory->reserve(std::size_t{1} << 19);
  TestPipeline pipeline;
  pipeline.transport().open(segment.data(), ring_bytes, self);
  ready.arrive_and_wait();
  std::uint64_t repetition = 0;
  for (const auto& [bytes, layout, messages] : cases()) {
    const View view{buffers.send, buffers.recv, bytes, 0, (bytes / guard_bytes + 3) * guard_bytes};
    const auto seed = [&, bytes = bytes](int direction, std::uint64_t message) {
      return seed_of({bytes, static_cast<std::uint64_t>(direction), repetition + message});
    };
    for (const bool in_turn : {false, true}) {
      repetition += messages;
      for (std::uint64_t i = 0; i < messages; ++i) {
        memory->fill(view.message(i).send, bytes, seed(self, i));
        memory->poison(view.message(i).recv, bytes, seed(1 - self, i));
      }
      pipeline.prepare(bytes, layout);
      for (std::uint64_t i = 0; i < messages; ++i) {
        if (!in_turn || self == 0) pipeline.start_send(view.message(i));
        else pipeline.start_recv(view.message(i));
        if (in_turn) pipeline.finish();
        if (!in_turn || self == 0) pipeline.start_recv(view.message(i));
        else pipeline.start_send(view.message(i));
        if (in_turn) pipeline.finish();
      }
      pipeline.finish();
      for (std::uint64_t i = 0; i < messages; ++i) {
        EXPECT(!memory->check(view.message(i).recv, bytes, seed(1 - self, i)));
      }
    }
  }
  pipeline.clear();
}

TEST(whatever_goes_in_comes_out) {
  SharedSegment segment = SharedSegment::create(segment_bytes);
  SegmentChunks::initialise(segment.data());
  SharedSegment other = SharedSegment::open(segment.name(), segment_bytes);
  segment.unlink();
  std::latch ready(2);
  std::thread second([&] { side(other, 1, ready); });
  side(segment, 0, ready);
  second.join();
}

TEST(messages_are_cut_by_the_table) {
  static constexpr std::array<ChunkRow, 2> rows{{{100000, 20000}, {1000000, 50000}}};
  constexpr ChunkPolicy policy{rows, 200000};
  EXPECT(policy.of(8).chunk_bytes == 8 && policy.of(8).slots == 200000 / 4096);
  EXPECT(policy.of(100000).chunk_bytes == 20000 && policy.of(100000).slots == 9);  // slots begin on pages
  EXPECT(policy.of(100001).chunk_bytes == 50000);
  EXPECT(policy.of(std::size_t{1} << 40).chunk_bytes == 50000 && policy.of(std::size_t{1} << 40).slots == 3);
  EXPECT((ChunkPolicy{rows, 4096}.of(100000).slots == 1));
  EXPECT((ChunkPolicy{rows, std::size_t{1} << 30}.of(8).slots == max_slots));
  const Json facts = policy.facts();
  EXPECT(facts.text() == R"({"chunks":[{"message_bytes":100000,"chunk_bytes":20000},)"
                         R"({"message_bytes":1000000,"chunk_bytes":50000}],"ring_bytes":200000})");
}

}  // namespace

int main() { return test::run_all(); }
