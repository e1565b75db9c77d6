// What all links between local endpoints share: the GPUs with their buffers and streams, and the lanes on which
// messages go.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "../gpu/gpu.hpp"
#include "gate.cuh"
#include "machine.hpp"

namespace volley::node {

// No link that carries peer access is slower than 1 GB/s (PCIe 1.0 x4).
constexpr double patience_s_per_byte = 1e-9;

// A device, with two pairs of buffers, one for messages there, one for messages back, and a gate for its streams.
struct Gpu {
  int device = 0;
  std::array<std::unique_ptr<Memory>, 2> memories;
  std::array<Buffers, 2> buffers;
  std::array<gpu::Stream, 2> streams;
  std::unique_ptr<Gate> gate;
};

// Where a message is, and who verifies it there.
struct Place {
  Verifier* verifier = nullptr;
  std::byte* at = nullptr;
  int device = -1;  // CUDA's number; -1: host memory
};

// One way of a link.
struct Lane {
  Place from;
  Place to;
  const Gpu* driver = nullptr;     // whose copy engine or kernel moves the data
  std::size_t number = 0;          // 0: there, 1: back
  std::optional<Place> over_link;  // `to` once more, as the kernels of the other device load it

  [[nodiscard]] const gpu::Stream& stream() const { return driver->streams[number]; }
  // Where message or window number `turn` of `count` leaves from; see View.
  [[nodiscard]] const std::byte* source(const View& view, std::uint64_t turn, std::uint64_t count) const {
    return from.at + (turn < count ? 0 : view.last_offset);
  }
};

// Makes `place` the current device, if it is on one.
inline void select(const Place& place) {
  if (place.device >= 0) gpu::select(place.device);
}

// Waits until the stream has done everything.
// Throws Stuck after `patience`; what the stream does then nobody knows.
void await(const gpu::Stream& stream, Seconds patience);

// A link whose messages are verified lane by lane: written where they come from, looked at where they arrived, and,
// where peer access is on, by loads of the other device's kernel as well.
class LaneLink : public Link {
 public:
  LaneLink(std::vector<Lane> lanes, bool peers) : lanes_(std::move(lanes)), peers_(peers) {}

  void prepare(const View&) override {}
  void pingpong(const View&, std::uint64_t) override;
  void stream(const View&, std::uint64_t, const Stream&) override;

  void fill(std::byte* message, std::size_t bytes, const Contents& contents) final;
  void poison(std::byte* message, std::size_t bytes, const Contents& expected) final;
  [[nodiscard]] std::optional<Mismatch> check(const std::byte* message, std::size_t bytes,
                                              const Contents& expected) final;
  [[nodiscard]] std::string complaint() const final { return complaint_; }
  [[nodiscard]] bool peers() const final { return peers_; }

 protected:
  [[nodiscard]] const std::vector<Lane>& lanes() const { return lanes_; }

 private:
  void complain(const Mismatch& wrong, std::size_t bytes, const char* reader);

  std::vector<Lane> lanes_;
  bool peers_;
  std::string complaint_;
};

// What makes the links of a section; see the files of those names.
[[nodiscard]] std::unique_ptr<Link> make_copies(const Section& section, std::vector<Lane> lanes, bool peers,
                                                Seconds patience, bool broken);
[[nodiscard]] std::unique_ptr<Link> make_held(const Section& section, std::vector<Lane> lanes, bool peers,
                                              Seconds patience);
[[nodiscard]] std::unique_ptr<Link> make_loads(std::vector<Lane> lanes, bool peers, Seconds patience);
[[nodiscard]] std::unique_ptr<Link> make_stores(std::vector<Lane> lanes, bool peers, Seconds patience);
// Between a GPU and memory of the host that is near it.
[[nodiscard]] std::unique_ptr<Link> make_hosted(const Section& section, const Gpu& gpu, std::uint64_t bytes,
                                                Seconds patience);

}  // namespace volley::node
