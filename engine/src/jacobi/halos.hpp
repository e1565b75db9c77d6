// The halos of one process: a message to and from each neighbour, carried by one transport, and the proof that they
// arrive as they were sent.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../context.hpp"
#include "../transport/registry.hpp"
#include "grid.hpp"
#include "sweep.hpp"

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

  // Why a rank cannot use the transport; the same on all. Empty when all can.
  [[nodiscard]] std::string unavailable();
  void open();
  void close();

  template <class Real>
  void pack(const Plane<Real>& plane);  // the outermost points of the domain go into the messages
  template <class Real>
  void unpack(const Plane<Real>& plane);  // the messages go around the domain
  void start();
  void progress();
  void finish();

  // One exchange of the verification pattern (measure/pattern.hpp), the first on fresh buffers: returns its seconds on
  // this rank, and looks at every byte and guard.
  [[nodiscard]] double prove();
  // Makes what the receive buffers hold wrong.
  void poison();
  // Compares the halos that came last with what the neighbours' send buffers hold, byte for byte.
  void compare();
  // The wrong halo of the lowest rank that found one; the same on all.
  [[nodiscard]] std::optional<WrongHalo> wrong() const;
  [[nodiscard]] std::uint64_t compared() const { return compared_; }  // messages that this rank received and looked at
  [[nodiscard]] std::size_t neighbours() const { return links_.size(); }

 private:
  struct Link {
    Side side;
    Pair pair;
    std::size_t points = 0;
    std::unique_ptr<Memory> memory;
    std::unique_ptr<HaloLink> link;
    View view;
  };
  void join(Side side, bool asks);
  void note(const Link& link, const Mismatch& mismatch);

  const Context& context_;
  const Grid& grid_;
  const TransportEntry& entry_;
  std::size_t point_bytes_;
  std::vector<Link> links_;
  std::optional<WrongHalo> found_;
  std::uint64_t compared_ = 0;
  std::uint64_t repetition_ = 0;
};

}  // namespace volley::jacobi
