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
#include "record/plan.hpp"
#include "transport/registry.hpp"

namespace volley::jacobi {

// What the neighbour on one side sent and this rank did not get.
struct WrongHalo {
  Mismatch mismatch;
  Side side = Side::left;
  int neighbour = 0;
};

class Halos {
 public:
  // Pairs every process with its neighbours. Collective over the world, as every call but those on points.
  Halos(const Context& context, const Grid& grid, const TransportEntry& entry, std::size_t point_bytes);

  // Why this rank or another cannot use the transport; the same on all. Empty when all can.
  [[nodiscard]] std::string unavailable(const Plan& plan);
  void open();
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
  void leave(gpu::StreamHandle cuda_stream);
  void start();
  void progress();
  void finish();
  void arrive(gpu::StreamHandle cuda_stream);
  [[nodiscard]] bool host_driven() const;
  [[nodiscard]] bool bounces() const;

  // Exchanges the verification pattern (measure/pattern.hpp) once at every place, on fresh buffers: returns the seconds
  // of the first on this rank, and looks at every byte and guard.
  [[nodiscard]] double prove();
  // Makes what the next exchange will overwrite wrong.
  void poison();
  // Compares what came since poison(), at each place the last, with what the neighbours' send buffers hold, byte for
  // byte.
  void compare();
  // The wrong halo of the lowest rank that found one; the same on all.
  [[nodiscard]] std::optional<WrongHalo> wrong() const;
  [[nodiscard]] std::uint64_t compared() const { return compared_; }  // messages that this rank received and looked at
  [[nodiscard]] std::size_t neighbours() const { return links_.size(); }

 private:
  struct NeighbourHalo {
    Side side;
    RankGroup pair;
    std::size_t points = 0;
    std::unique_ptr<Memory> memory;
    std::unique_ptr<Transport> link;
    Buffers buffers;
    std::size_t bytes = 0;
    std::size_t stride = 0;  // from place to place
    [[nodiscard]] View view(std::size_t place) const {
      return {buffers.send + place * stride, buffers.recv + place * stride, bytes};
    }
  };
  void join(Side side, bool asks);
  [[nodiscard]] std::string own_reason(const Plan& plan);
  [[nodiscard]] double prove_place();
  void compare_place(NeighbourHalo& link, std::size_t place);
  void note(const NeighbourHalo& link, const Mismatch& mismatch);

  const Context& context_;
  const Grid& grid_;
  const TransportEntry& entry_;
  std::size_t point_bytes_;
  std::size_t places_;
  std::vector<NeighbourHalo> links_;
  std::size_t place_ = 0;         // in hand
  std::size_t since_poison_ = 0;  // exchanges
  std::optional<WrongHalo> found_;
  std::uint64_t compared_ = 0;
  std::uint64_t repetition_ = 0;
};

}  // namespace volley::jacobi
