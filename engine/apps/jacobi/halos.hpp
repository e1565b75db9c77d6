// The halos of one process: a message to and from each neighbour, carried by one transport and verified.
#pragma once

#include <algorithm>
#include <cstring>

#include "group/agreement.hpp"
#include "jacobi/grid.hpp"
#include "transport/registry.hpp"

namespace volley::jacobi {

// A halo that differs from what the neighbour sent.
struct WrongHalo {
  Mismatch mismatch;
  Side side = Side::left;
  int neighbour = 0;
};

// The first point of the line along `side` and the step to the next point. `outside`: 0 for the domain's outermost
// points, 1 for the points around it.
template <class Real>
std::pair<Real*, std::int64_t> line_of_points(const Plane<Real>& plane, const Grid& grid, Side side, int outside) {
  switch (side) {
    case Side::left: return {plane.row(0) - outside, plane.stride};
    case Side::right: return {plane.row(0) + grid.columns - 1 + outside, plane.stride};
    case Side::up: return {plane.row(-outside), 1};
    case Side::down: return {plane.row(grid.rows - 1 + outside), 1};
  }
  return {};
}

// Every call is collective over the world, except those on points.
class Halos {
 public:
  Halos(const Context& context, const Grid& grid, const TransportEntry& entry, std::size_t point_bytes)
      : context_(context), grid_(grid), entry_(entry), places_(entry.memory == MemoryKind::device ? 2 : 1) {
    // In each of these four rounds a process belongs to at most one pair.
    for (const bool even : {true, false}) pair_up(Side::right, (grid.x % 2 == 0) == even);
    for (const bool even : {true, false}) pair_up(Side::down, (grid.y % 2 == 0) == even);
    for (auto& neighbour : neighbours_) {
      const bool is_column = neighbour.side == Side::left || neighbour.side == Side::right;
      neighbour.points = static_cast<std::size_t>(is_column ? grid.rows : grid.columns);
      neighbour.bytes = neighbour.points * point_bytes;
      neighbour.stride = round_up(neighbour.bytes + 2 * guard_bytes, place_alignment);
    }
  }

  // Where the halos lie in the two planes of a field in host memory, the present one first. Before open().
  template <class Real>
  void lie_in(const Plane<Real>& now, const Plane<Real>& next) {
    for (auto& neighbour : neighbours_) {
      for (const auto* plane : {&now, &next}) {
        const auto [sent, step] = line_of_points(*plane, grid_, neighbour.side, 0);
        const auto [received, same_step] = line_of_points(*plane, grid_, neighbour.side, 1);
        neighbour.line = {neighbour.points, sizeof(Real), static_cast<std::size_t>(step) * sizeof(Real)};
        neighbour.in_planes[plane == &now ? 0 : 1] = {reinterpret_cast<std::byte*>(sent),
                                                      reinterpret_cast<std::byte*>(received), neighbour.bytes};
      }
    }
  }

  [[nodiscard]] std::string unavailable() {
    for (auto& neighbour : neighbours_) {
      const std::string reason = neighbour.transport->unavailable(context_, neighbour.pair);
      if (!reason.empty()) return reason;
    }
    return {};
  }

  // Opens the transport, whose kernels wait for a halo for up to `wait_s`. Returns why this rank could not; empty if it
  // could. If one rank could not, all ranks call close(). A rank that failed with one neighbour continues with the next
  // one, which waits for it.
  [[nodiscard]] std::string open(double wait_s) {
    std::string reason;
    for (auto& neighbour : neighbours_) {
      const std::size_t capacity = (places_ - 1) * neighbour.stride + neighbour.bytes;
      neighbour.memory = make_memory(entry_.memory);
      const std::string problem = problem_of([&] {
        agreed_step(neighbour.pair, [&] { neighbour.buffers = neighbour.memory->reserve(capacity); });
        neighbour.opened = true;
        neighbour.transport->limit_waits(wait_s);
        agreed_step(neighbour.pair, [&] { neighbour.transport->open(neighbour.pair, neighbour.buffers); });
        neighbour.halo = neighbour.transport->halo();
        agreed_step(neighbour.pair, [&] {
          in_field_ = neighbour.line.points > 0 && neighbour.halo->open_line(neighbour.line);
          if (!in_field_) neighbour.halo->open_halo(neighbour.view(place_));
        });
      });
      if (reason.empty()) reason = problem;
    }
    return reason;
  }

  // Releases everything except the messages' memory, which this object frees at its end: libraries may have mapped it.
  void close() {
    for (auto& neighbour : neighbours_) {
      if (neighbour.opened) neighbour.transport->close();
    }
    VOLLEY_MPI(MPI_Barrier(context_.world.get()));
  }

  // The next exchange uses the other place of the messages, if there are two: halos in device memory are enqueued
  // ahead, while the halo before is still being read (transport/transport.hpp).
  void turn() {
    place_ = (place_ + 1) % places_;
    plane_ = 1 - plane_;
    ++since_poison_;
  }

  // The message to and from the neighbour on each side, at the present place; empty where there is no neighbour.
  [[nodiscard]] std::array<View, 4> messages() const {
    std::array<View, 4> views{};
    for (const auto& neighbour : neighbours_) views[static_cast<std::size_t>(neighbour.side)] = neighbour.view(place_);
    return views;
  }

  // Copies the outermost points of the domain into the messages, and the messages to the points around the domain.
  template <class Real>
  void pack(const Plane<Real>& plane) {
    if (in_field_) return;
    for (auto& neighbour : neighbours_) {
      const auto [from, step] = line_of_points(plane, grid_, neighbour.side, 0);
      auto* to = reinterpret_cast<Real*>(neighbour.view(place_).send);
      for (std::size_t i = 0; i < neighbour.points; ++i) to[i] = from[static_cast<std::int64_t>(i) * step];
    }
  }
  template <class Real>
  void unpack(const Plane<Real>& plane) {
    if (in_field_) return;
    for (auto& neighbour : neighbours_) {
      const auto [to, step] = line_of_points(plane, grid_, neighbour.side, 1);
      const auto* from = reinterpret_cast<const Real*>(neighbour.view(place_).recv);
      for (std::size_t i = 0; i < neighbour.points; ++i) to[static_cast<std::int64_t>(i) * step] = from[i];
    }
  }

  void enqueue_send(gpu::StreamHandle cuda_stream) {
    for (auto& each : neighbours_) each.halo->enqueue_send(each.view(place_), cuda_stream);
  }
  void start() {
    for (auto& each : neighbours_) each.halo->start(in_field_ ? each.in_planes[plane_] : each.view(place_));
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

  // Exchanges the verification pattern (messages/pattern.hpp) once at every place, on fresh buffers, and checks every
  // byte and, in buffers, every guard. Returns the seconds of the first exchange on this rank.
  [[nodiscard]] double verify_pattern() {
    if (in_field_) return verify_pattern_in_field();
    std::vector<double> elapsed_s;
    while (elapsed_s.size() < places_) elapsed_s.push_back(verify_pattern_at_next_place());
    return elapsed_s.front();
  }

  // Writes wrong values where the next exchange will write.
  void poison() {
    ++repetition_;
    since_poison_ = 0;
    for (auto& neighbour : neighbours_) {
      const auto peer = static_cast<std::uint64_t>(neighbour.pair.peer());
      const View next = neighbour.view((place_ + 1) % places_);
      neighbour.memory->poison(next.recv, next.bytes, seed_of({next.bytes, peer, repetition_}));
      if (in_field_) neighbour.line.unpack(neighbour.in_planes[1 - plane_].recv, next.recv);
    }
  }

  // Compares the last halo at each place since poison() with the neighbour's send buffer, byte for byte.
  void compare() {
    for (const auto& neighbour : neighbours_) {
      if (in_field_) {
        neighbour.line.pack(neighbour.view(place_).send, neighbour.in_planes[plane_].send);
        neighbour.line.pack(neighbour.view(place_).recv, neighbour.in_planes[plane_].recv);
      }
      for (std::size_t back = std::min(since_poison_, places_); back-- > 0;) {
        compare_place(neighbour, (place_ + places_ - back) % places_);
      }
    }
  }

  // The wrong halo of the lowest rank that found one; the same on all ranks.
  [[nodiscard]] std::optional<WrongHalo> wrong() const {
    int finder = wrong_ ? context_.rank : std::numeric_limits<int>::max();
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &finder, 1, MPI_INT, MPI_MIN, context_.world.get()));
    if (finder == std::numeric_limits<int>::max()) return std::nullopt;
    return mpi::broadcast_value(wrong_.value_or(WrongHalo{}), finder, context_.world.get());
  }

  [[nodiscard]] std::uint64_t compared() const { return compared_; }  // messages that this rank received and checked
  [[nodiscard]] bool none() const { return neighbours_.empty(); }     // this process has no neighbours

 private:
  static constexpr std::size_t place_alignment = 4096;  // of the messages in a buffer
  static constexpr std::size_t compared_at_once = std::size_t{1} << 20;

  struct Neighbour {
    Side side;
    RankGroup pair;
    std::unique_ptr<Transport> transport;
    HaloExchange* halo = nullptr;  // of the transport, when it is open
    std::unique_ptr<Memory> memory;
    Buffers buffers;
    bool opened = false;  // or it was tried: must be closed
    std::size_t points = 0;
    std::size_t bytes = 0;
    std::size_t stride = 0;  // bytes from place to place
    HaloLine line;           // in a field in host memory
    std::array<View, 2> in_planes;
    [[nodiscard]] View view(std::size_t place) const {
      return {buffers.send + place * stride, buffers.recv + place * stride, bytes};
    }
  };

  // A process that `asks` pairs up with its neighbour on `side`, another one with its neighbour on the opposite side.
  void pair_up(Side side, bool asks) {
    const Side opposite = side == Side::right ? Side::left : Side::up;
    const auto other = grid_.neighbour(asks ? side : opposite);
    std::vector<int> ranks;
    if (other) ranks = asks ? std::vector{context_.rank, *other} : std::vector{*other, context_.rank};
    auto pair = make_group(context_, ranks);
    if (!pair) return;
    Neighbour& neighbour = neighbours_.emplace_back();
    neighbour.side = asks ? side : opposite;
    neighbour.pair = std::move(*pair);
    neighbour.transport = entry_.make();
  }

  [[nodiscard]] double verify_pattern_at_next_place() {
    turn();
    ++repetition_;
    const auto seed = [&](const Neighbour& neighbour, int direction) {
      return seed_of({neighbour.bytes, static_cast<std::uint64_t>(direction), repetition_});
    };
    for (auto& neighbour : neighbours_) {
      const View view = neighbour.view(place_);
      neighbour.memory->fill(view.send, view.bytes, seed(neighbour, neighbour.pair.self));
      neighbour.memory->poison(view.recv, view.bytes, seed(neighbour, neighbour.pair.peer()));
    }
    VOLLEY_MPI(MPI_Barrier(context_.world.get()));
    const double elapsed_s = timed([&] { exchange_from_host(); });
    for (auto& neighbour : neighbours_) {
      const auto mismatch =
          neighbour.memory->check(neighbour.view(place_).recv, neighbour.bytes, seed(neighbour, neighbour.pair.peer()));
      if (mismatch) keep_first(neighbour, *mismatch);
      ++compared_;
    }
    return elapsed_s;
  }

  // The same where halos are sent from the field. Two lines share the point in a corner, so the neighbours tell each
  // other what they have sent. The field is then what it was.
  [[nodiscard]] double verify_pattern_in_field() {
    std::vector<std::vector<std::byte>> kept;
    poison();
    turn();
    for (const auto& neighbour : neighbours_) {
      neighbour.line.pack(kept.emplace_back(neighbour.bytes).data(), neighbour.in_planes[plane_].send);
    }
    for (const auto& neighbour : neighbours_) {
      const View view = neighbour.view(place_);
      const auto self = static_cast<std::uint64_t>(neighbour.pair.self);
      neighbour.memory->fill(view.send, view.bytes, seed_of({view.bytes, self, repetition_}));
      neighbour.line.unpack(neighbour.in_planes[plane_].send, view.send);
    }
    VOLLEY_MPI(MPI_Barrier(context_.world.get()));
    const double elapsed_s = timed([&] { exchange_from_host(); });
    compare();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      neighbours_[i].line.unpack(neighbours_[i].in_planes[plane_].send, kept[i].data());
    }
    return elapsed_s;
  }

  // The halos are usable at the end.
  void exchange_from_host() {
    const auto synchronize = [&] {
      for (auto& neighbour : neighbours_) neighbour.memory->synchronize();
    };
    enqueue_send(nullptr);
    synchronize();
    start();
    finish();
    enqueue_recv(nullptr);
    synchronize();
    progress();
  }

  void compare_place(const Neighbour& neighbour, std::size_t place) {
    const View view = neighbour.view(place);
    std::vector<std::byte> sent;
    std::vector<std::byte> expected;
    std::vector<std::byte> received;
    Mismatch mismatch;
    for (std::size_t offset = 0; offset < view.bytes; offset += compared_at_once) {
      const std::size_t part = std::min(compared_at_once, view.bytes - offset);
      const auto count = static_cast<int>(part);
      for (auto* bytes : {&sent, &expected, &received}) bytes->resize(part);
      neighbour.memory->copy(sent.data(), view.send + offset, part);
      neighbour.memory->copy(received.data(), view.recv + offset, part);
      const int peer = neighbour.pair.peer();
      VOLLEY_MPI(MPI_Sendrecv(sent.data(), count, MPI_BYTE, peer, 0, expected.data(), count, MPI_BYTE, peer, 0,
                              neighbour.pair.control.get(), MPI_STATUS_IGNORE));
      compare_bytes(received.data(), expected.data(), part, offset, mismatch);
    }
    if (mismatch.wrong_bytes > 0) keep_first(neighbour, mismatch);
    ++compared_;
  }

  void keep_first(const Neighbour& neighbour, const Mismatch& mismatch) {
    if (wrong_) return;
    wrong_ = WrongHalo{mismatch, neighbour.side, neighbour.pair.rank(neighbour.pair.peer())};
    wrong_->mismatch.rank = context_.rank;
  }

  const Context& context_;
  const Grid& grid_;
  const TransportEntry& entry_;
  std::size_t places_;
  std::vector<Neighbour> neighbours_;
  std::size_t place_ = 0;         // the present one
  bool in_field_ = false;         // halos are sent from the field, and arrive there
  std::size_t plane_ = 0;         // in which they do
  std::size_t since_poison_ = 0;  // exchanges
  std::optional<WrongHalo> wrong_;
  std::uint64_t compared_ = 0;
  std::uint64_t repetition_ = 0;
};

}  // namespace volley::jacobi
