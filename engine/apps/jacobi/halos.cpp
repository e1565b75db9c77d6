#include "jacobi/halos.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "measure/memory.hpp"

#include "measure/timing_loop.hpp"
#include "mpi/text.hpp"

namespace volley::jacobi {

namespace {

constexpr std::size_t compared_at_once = std::size_t{1} << 20;
// Of the places of messages that share a buffer.
constexpr std::size_t place_alignment = 4096;

bool upright(Side side) { return side == Side::left || side == Side::right; }

// The first point of a message and the step to the next: the domain's own, or `outside` it.
template <class Real>
std::pair<Real*, std::int64_t> line_of_points(const Plane<Real>& plane, const Grid& grid, Side side, int outside) {
  switch (side) {
    case Side::left: return {plane.row(0) - outside, plane.stride};
    case Side::right: return {plane.row(0) + grid.columns() - 1 + outside, plane.stride};
    case Side::up: return {plane.row(-outside), 1};
    case Side::down: return {plane.row(grid.rows() - 1 + outside), 1};
  }
  return {};
}

// Compares `bytes` bytes, of which the first is byte `offset` of the message.
void compare_part(const std::byte* found, const std::byte* expected, std::size_t bytes, std::size_t offset,
                  Mismatch& wrong) {
  if (std::memcmp(found, expected, bytes) == 0) return;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (found[i] == expected[i]) continue;
    if (wrong.wrong_bytes++ > 0) continue;
    wrong.offset_bytes = static_cast<std::int64_t>(offset + i);
    wrong.expected = static_cast<std::uint8_t>(expected[i]);
    wrong.found = static_cast<std::uint8_t>(found[i]);
  }
}

}  // namespace

Halos::Halos(const Context& context, const Grid& grid, const TransportEntry& entry, std::size_t point_bytes)
    : context_(context),
      grid_(grid),
      entry_(entry),
      point_bytes_(point_bytes),
      places_(entry.memory == MemoryKind::device ? 2 : 1) {
  // Four rounds: in each a process belongs to one pair at most.
  for (const bool even : {true, false}) join(Side::right, (grid.across() % 2 == 0) == even);
  for (const bool even : {true, false}) join(Side::down, (grid.along() % 2 == 0) == even);
}

// Each process that `asks` joins its neighbour on `side`; the others are joined from the opposite side.
void Halos::join(Side side, bool asks) {
  const Side opposite = side == Side::right ? Side::left : Side::up;
  const auto neighbour = grid_.neighbour(asks ? side : opposite);
  std::vector<int> ranks;
  if (neighbour) ranks = asks ? std::vector{context_.rank, *neighbour} : std::vector{*neighbour, context_.rank};
  auto pair = join_group(context_, ranks);
  if (!pair) return;
  NeighbourHalo& link = links_.emplace_back();
  link.side = asks ? side : opposite;
  link.pair = std::move(*pair);
  link.points = static_cast<std::size_t>(upright(side) ? grid_.rows() : grid_.columns());
  link.link = entry_.make();
}

// What solving on devices needs, whatever moves the halos; then what the transport needs.
std::string Halos::own_reason(const Plan& plan) {
  const auto excluded = plan.excluded.find(entry_.name);
  if (entry_.memory == MemoryKind::device) {
    const RankFacts& self = context_.ranks[static_cast<std::size_t>(context_.rank)];
    if (!self.device) return context_.gpus.reason;
    for (const RankFacts& other : context_.ranks) {
      if (plan.share_device || other.rank == self.rank || !same_device(self, other)) continue;
      return "two ranks are on one device, " + self.device->name + " " + self.device->uuid +
             "; --share-gpu allows that, --gpus chooses others";
    }
  }
  // Without neighbours nothing is opened that could end the process.
  if (excluded != plan.excluded.end() && context_.size > 1) return excluded->second;
  for (auto& link : links_) {
    const std::string reason = link.link->unavailable(context_, link.pair);
    if (!reason.empty()) return reason;
  }
  return {};
}

std::string Halos::unavailable(const Plan& plan) {
  const auto reasons = mpi::all_gather(own_reason(plan), context_.world.get());
  const auto first = std::find_if(reasons.begin(), reasons.end(), [](const auto& reason) { return !reason.empty(); });
  if (first == reasons.end()) return {};
  if (std::all_of(first, reasons.end(), [&](const auto& reason) { return reason == *first; })) return *first;
  return *first + " (rank " + std::to_string(first - reasons.begin()) + ")";
}

void Halos::open() {
  for (auto& link : links_) {
    link.bytes = link.points * point_bytes_;
    link.stride = (link.bytes + 2 * guard_bytes + place_alignment - 1) / place_alignment * place_alignment;
    const std::size_t capacity = (places_ - 1) * link.stride + link.bytes;
    link.memory = make_memory(entry_.memory);
    link.buffers = link.memory->reserve(capacity);
    link.link->open(context_, link.pair, link.buffers, capacity);
    link.link->open_halo(link.view(place_));
  }
}

void Halos::close() {
  for (auto& link : links_) link.link->close();
  VOLLEY_MPI(MPI_Barrier(context_.world.get()));
}

void Halos::turn() {
  place_ = (place_ + 1) % places_;
  ++since_poison_;
}

std::array<View, 4> Halos::messages() const {
  std::array<View, 4> found{};
  for (const auto& link : links_) found[static_cast<std::size_t>(link.side)] = link.view(place_);
  return found;
}

template <class Real>
void Halos::pack(const Plane<Real>& plane) {
  for (auto& link : links_) {
    const auto [from, step] = line_of_points(plane, grid_, link.side, 0);
    auto* to = reinterpret_cast<Real*>(link.view(place_).send);
    if (!upright(link.side)) std::copy_n(from, link.points, to);
    else
      for (std::size_t i = 0; i < link.points; ++i) to[i] = from[static_cast<std::int64_t>(i) * step];
  }
}

template <class Real>
void Halos::unpack(const Plane<Real>& plane) {
  for (auto& link : links_) {
    const auto [to, step] = line_of_points(plane, grid_, link.side, 1);
    const auto* from = reinterpret_cast<const Real*>(link.view(place_).recv);
    if (!upright(link.side)) std::copy_n(from, link.points, to);
    else
      for (std::size_t i = 0; i < link.points; ++i) to[static_cast<std::int64_t>(i) * step] = from[i];
  }
}

void Halos::leave(gpu::StreamHandle cuda_stream) {
  for (auto& link : links_) link.link->leave(link.view(place_), cuda_stream);
}

void Halos::start() {
  for (auto& link : links_) link.link->start(link.view(place_));
}

void Halos::progress() {
  for (auto& link : links_) link.link->progress();
}

void Halos::finish() {
  for (auto& link : links_) link.link->finish();
}

void Halos::arrive(gpu::StreamHandle cuda_stream) {
  for (auto& link : links_) link.link->arrive(link.view(place_), cuda_stream);
}

bool Halos::host_driven() const { return !links_.empty() && links_.front().link->host_driven(); }

bool Halos::bounces() const { return !links_.empty() && links_.front().link->staged_through_host(); }

double Halos::prove() {
  const double cold_s = prove_place();
  for (std::size_t place = 1; place < places_; ++place) (void)prove_place();
  return cold_s;
}

double Halos::prove_place() {
  turn();
  ++repetition_;
  const auto seed = [&](const NeighbourHalo& link, int direction) {
    return seed_of({link.bytes, static_cast<std::uint64_t>(direction), repetition_});
  };
  for (auto& link : links_) {
    const View view = link.view(place_);
    link.memory->fill(view.send, view.bytes, seed(link, link.pair.self));
    link.memory->poison(view.recv, view.bytes, seed(link, link.pair.peer()));
  }
  const auto settle = [&] {
    for (auto& link : links_) link.memory->settle();
  };
  VOLLEY_MPI(MPI_Barrier(context_.world.get()));
  const double elapsed_s = timed(
      [&](std::uint64_t) {
        leave(nullptr);
        settle();
        start();
        finish();
        arrive(nullptr);
        settle();
        progress();
      },
      1);
  for (auto& link : links_) {
    const auto mismatch = link.memory->check(link.view(place_).recv, link.bytes, seed(link, link.pair.peer()));
    if (mismatch) note(link, *mismatch);
    ++compared_;
  }
  return elapsed_s;
}

void Halos::poison() {
  ++repetition_;
  since_poison_ = 0;
  for (auto& link : links_) {
    const auto peer = static_cast<std::uint64_t>(link.pair.peer());
    const View next = link.view((place_ + 1) % places_);
    link.memory->poison(next.recv, next.bytes, seed_of({next.bytes, peer, repetition_}));
  }
}

void Halos::compare() {
  for (auto& link : links_) {
    for (std::size_t back = std::min(since_poison_, places_); back-- > 0;) {
      compare_place(link, (place_ + places_ - back) % places_);
    }
  }
}

void Halos::compare_place(NeighbourHalo& link, std::size_t place) {
  const View view = link.view(place);
  std::vector<std::byte> mine;
  std::vector<std::byte> theirs;
  std::vector<std::byte> here;
  Mismatch wrong;
  for (std::size_t offset = 0; offset < view.bytes; offset += compared_at_once) {
    const std::size_t part = std::min(compared_at_once, view.bytes - offset);
    for (auto* bytes : {&mine, &theirs, &here}) bytes->resize(part);
    link.memory->read(mine.data(), view.send + offset, part);
    link.memory->read(here.data(), view.recv + offset, part);
    VOLLEY_MPI(MPI_Sendrecv(mine.data(), static_cast<int>(part), MPI_BYTE, link.pair.peer(), 0, theirs.data(),
                            static_cast<int>(part), MPI_BYTE, link.pair.peer(), 0, link.pair.control.get(),
                            MPI_STATUS_IGNORE));
    compare_part(here.data(), theirs.data(), part, offset, wrong);
  }
  if (wrong.wrong_bytes > 0) note(link, wrong);
  ++compared_;
}

void Halos::note(const NeighbourHalo& link, const Mismatch& mismatch) {
  if (found_) return;
  found_ = WrongHalo{mismatch, link.side, link.pair.ranks[static_cast<std::size_t>(link.pair.peer())]};
  found_->mismatch.rank = context_.rank;
}

std::optional<WrongHalo> Halos::wrong() const {
  int finder = found_ ? context_.rank : std::numeric_limits<int>::max();
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &finder, 1, MPI_INT, MPI_MIN, context_.world.get()));
  if (finder == std::numeric_limits<int>::max()) return std::nullopt;
  return mpi::broadcast_value(found_.value_or(WrongHalo{}), finder, context_.world.get());
}

template void Halos::pack(const Plane<double>&);
template void Halos::pack(const Plane<float>&);
template void Halos::unpack(const Plane<double>&);
template void Halos::unpack(const Plane<float>&);

}  // namespace volley::jacobi
