// The halos of one process: a message to and from each neighbour, carried by one transport. Verifies that the messages
// arrive as they were sent.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "group/context.hpp"
#include "jacobi/grid.hpp"
#include "jacobi/sweep.hpp"
#include "transport/registry.hpp"

namespace volley::jacobi {

// A halo that differs from what the neighbour sent.
struct WrongHalo {
  Mismatch mismatch;
  Side side = Side::left;
  int neighbour = 0;
};

// Every call is collective over the world, except those on points.
class Halos {
 public:
  // Pairs every process with its neighbours.
  Halos(const Context& context, const Grid& grid, const TransportEntry& entry, std::size_t point_bytes);

  // Why this rank cannot use the transport; empty if it can.
  [[nodiscard]] std::string unavailable();
  // Opens the transport, whose kernels wait for a halo for up to `wait_s`. Returns why this rank could not; empty if it
  // could. If one rank could not, all ranks call close().
  [[nodiscard]] std::string open(double wait_s);
  // Releases everything except the messages' memory, which this object frees at its end: libraries may have mapped it.
  void close();

  // The next exchange uses the other place of the messages, if there are two: halos in device memory are enqueued
  // ahead, while the halo before is still being read (transport/transport.hpp).
  void turn();
  // The message to and from the neighbour on each side, at the present place; empty where there is no neighbour.
  [[nodiscard]] std::array<View, 4> messages() const;

  template <class Real>
  void pack(const Plane<Real>& plane);  // copies the outermost points of the domain into the messages
  template <class Real>
  void unpack(const Plane<Real>& plane);  // copies the messages to the points around the domain

  // An exchange; see transport/transport.hpp.
  void enqueue_send(gpu::StreamHandle cuda_stream) {
    for (auto& each : neighbours_) each.halo->enqueue_send(each.view(place_), cuda_stream);
  }
  void start() {
    for (auto& each : neighbours_) each.halo->start(each.view(place_));
  }
  void progress() {
    for (auto& each : neighbours_) each.halo->progress();
  }
  void finish() {
    for (auto& each : neighbours_) each.halo->finish();
  }
  void enqueue_recv(gpu::StreamHandle cuda_stream) {
    for (auto& each : neighbours_) each.halo->enqueue_recv(each.view(place_), cuda_stream);
  }
  [[nodiscard]] bool host_driven() const { return !none() && neighbours_[0].halo->host_driven(); }
  [[nodiscard]] bool staged_through_host() const { return !none() && neighbours_[0].halo->staged_through_host(); }

  // Exchanges the verification pattern (host/pattern.hpp) once at every place, on fresh buffers, and checks every byte
  // and guard. Returns the seconds of the first exchange on this rank.
  [[nodiscard]] double verify_pattern();
  // Writes wrong values where the next exchange will write.
  void poison();
  // Compares the last halo at each place since poison() with the neighbour's send buffer, byte for byte.
  void compare();
  // The wrong halo of the lowest rank that found one; the same on all ranks.
  [[nodiscard]] std::optional<WrongHalo> wrong() const;
  [[nodiscard]] std::uint64_t compared() const { return compared_; }  // messages that this rank received and checked
  [[nodiscard]] bool none() const { return neighbours_.empty(); }     // this process has no neighbours

 private:
  struct Neighbour {
    Side side;
    RankGroup pair;
    std::unique_ptr<Transport> transport;
    Halo* halo = nullptr;  // of the transport, when it is open
    std::unique_ptr<Memory> memory;
    Buffers buffers;
    bool opened = false;  // or it was tried: must be closed
    std::size_t points = 0;
    std::size_t bytes = 0;
    std::size_t stride = 0;  // bytes from place to place
    [[nodiscard]] View view(std::size_t place) const {
      return {buffers.send + place * stride, buffers.recv + place * stride, bytes};
    }
  };
  void pair_up(Side side, bool asks);
  [[nodiscard]] double verify_pattern_at_next_place();
  void exchange_from_host();
  void compare_place(const Neighbour& neighbour, std::size_t place);
  void keep_first(const Neighbour& neighbour, const Mismatch& mismatch);

  const Context& context_;
  const Grid& grid_;
  const TransportEntry& entry_;
  std::size_t places_;
  std::vector<Neighbour> neighbours_;
  std::size_t place_ = 0;         // the present one
  std::size_t since_poison_ = 0;  // exchanges
  std::optional<WrongHalo> wrong_;
  std::uint64_t compared_ = 0;
  std::uint64_t repetition_ = 0;
};

}  // namespace volley::jacobi
