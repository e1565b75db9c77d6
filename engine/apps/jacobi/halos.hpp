// The halos of one process: a message to and from each neighbour, carried by one transport, and the proof that they
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

// What the neighbour on one side sent and this rank did not get.
struct WrongHalo {
  Mismatch mismatch;
  Side side = Side::left;
  int neighbour = 0;
};

// Every call is collective over the world, but those on points.
class Halos {
 public:
  // Pairs every process with its neighbours.
  Halos(const Context& context, const Grid& grid, const TransportEntry& entry, std::size_t point_bytes);

  // Why this rank cannot use the transport; empty when it can.
  [[nodiscard]] std::string unavailable();
  // Returns why this rank could not open the transport; empty when it could. Where one could not, all ranks call
  // close().
  [[nodiscard]] std::string open();
  // Lets go of everything but the messages' memory, which goes with this object: libraries may have mapped it.
  void close();

  // The next exchange takes the messages' other place, where there are two: halos in device memory are enqueued ahead,
  // and the one before is still being read (transport/transport.hpp).
  void turn();
  // The message to and from the neighbour on each side, at the place in hand; without bytes where there is none.
  [[nodiscard]] std::array<View, 4> messages() const;

  template <class Real>
  void pack(const Plane<Real>& plane);  // the outermost points of the domain go into the messages
  template <class Real>
  void unpack(const Plane<Real>& plane);  // the messages go around the domain

  // An exchange; see transport/transport.hpp.
  void leave(gpu::StreamHandle cuda_stream) {
    for (auto& each : neighbours_) each.transport->leave(each.view(place_), cuda_stream);
  }
  void start() {
    for (auto& each : neighbours_) each.transport->start(each.view(place_));
  }
  void progress() {
    for (auto& each : neighbours_) each.transport->progress();
  }
  void finish() {
    for (auto& each : neighbours_) each.transport->finish();
  }
  void arrive(gpu::StreamHandle cuda_stream) {
    for (auto& each : neighbours_) each.transport->arrive(each.view(place_), cuda_stream);
  }
  [[nodiscard]] bool host_driven() const { return !none() && neighbours_[0].transport->host_driven(); }
  [[nodiscard]] bool staged_through_host() const { return !none() && neighbours_[0].transport->staged_through_host(); }

  // Exchanges the verification pattern (host/pattern.hpp) once at every place, on fresh buffers: returns the seconds of
  // the first on this rank, and looks at every byte and guard.
  [[nodiscard]] double verify_pattern();
  // Makes what the next exchange will overwrite wrong.
  void poison();
  // Compares what came since poison(), at each place the last, with what the neighbours' send buffers hold, byte for
  // byte.
  void compare();
  // The wrong halo of the lowest rank that found one; the same on all.
  [[nodiscard]] std::optional<WrongHalo> wrong() const;
  [[nodiscard]] std::uint64_t compared() const { return compared_; }  // messages that this rank received and looked at
  [[nodiscard]] bool none() const { return neighbours_.empty(); }     // this process has no neighbours

 private:
  struct Neighbour {
    Side side;
    RankGroup pair;
    std::unique_ptr<Transport> transport;
    std::unique_ptr<Memory> memory;
    Buffers buffers;
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
  std::size_t place_ = 0;         // in hand
  std::size_t since_poison_ = 0;  // exchanges
  std::optional<WrongHalo> wrong_;
  std::uint64_t compared_ = 0;
  std::uint64_t repetition_ = 0;
};

}  // namespace volley::jacobi
