// Collectives that break on purpose, to show that the engine notices. Used only when asked for by name.
#include <algorithm>
#include <cstring>
#include <vector>

#include "benchmark/collective/mpi_collectives.hpp"
#include "mpi/communicator.hpp"
#include "transport/flipped_bit.hpp"

namespace volley {

namespace {

// Changes what a rank gives to an operation, or what it has got of it. One rank does not wait at a barrier.
class Broken : public MpiCollectives {
 public:
  void open(const RankGroup& group, const Buffers& buffers) override {
    MpiCollectives::open(group, buffers);
    leaves_ = group.self == group.size() - 1;
    MPI_Comm rest = MPI_COMM_NULL;
    VOLLEY_MPI(MPI_Comm_split(comm_, leaves_ ? 1 : 0, group.self, &rest));
    waiting_ = Communicator(rest);
  }
  void close() override { waiting_ = {}; }

  void perform(const Collective& collective, const View& view, std::uint64_t count) override {
    for_each_operation(view, count, [&](const View& here) {
      if (collective.operation == Operation::barrier) {
        if (!leaves_) VOLLEY_MPI(MPI_Barrier(waiting_.get()));
        return;
      }
      sent_.assign(here.send, here.send + collective.sent_bytes(here.bytes));
      change_sent(collective, sent_);
      once(call_of(collective, view), sent_.data(), here.recv);
      change_received(collective, here);
    });
  }

 protected:
  using Bytes = std::vector<std::byte>;

  // What this rank contributes, where that is to be summed or sent; and what has arrived.
  virtual void change_sent(const Collective&, Bytes&) {}
  virtual void change_received(const Collective&, const View&) {}

  static bool is_last(const Collective& collective) { return collective.self == collective.ranks - 1; }
  static bool gathers(const Collective& collective) {
    return collective.operation == Operation::allgather || collective.operation == Operation::all_to_all;
  }
  // The block of the last rank in what was gathered.
  static std::byte* last_block(const Collective& collective, const View& view) {
    return view.recv + static_cast<std::uint64_t>(collective.ranks - 1) * collective.block(view.bytes);
  }

 private:
  bool leaves_ = false;
  Communicator waiting_;
  Bytes sent_;
};

// The last rank contributes nothing: zeros to a sum, and its block, or a message to it, keeps what was there before.
class Losing final : public Broken {
 public:
  void perform(const Collective& collective, const View& view, std::uint64_t count) override {
    before_.assign(view.recv, view.recv + collective.received_bytes(view.bytes));
    Broken::perform(collective, view, count);
  }

 private:
  void change_sent(const Collective& collective, Bytes& sent) override {
    if (collective.reduces() && is_last(collective)) std::fill(sent.begin(), sent.end(), std::byte{0});
  }
  void change_received(const Collective& collective, const View& view) override {
    const bool alone = collective.operation == Operation::broadcast && is_last(collective);
    if (!gathers(collective) && !alone) return;
    std::byte* const at = alone ? view.recv : last_block(collective, view);
    std::copy(before_.begin() + (at - view.recv), before_.end(), at);
  }
  Bytes before_;
};

// What the first rank contributes counts twice. Of a broadcast a rank gets what it would have sent itself.
class Doubling final : public Broken {
  void change_sent(const Collective& collective, Bytes& sent) override {
    if (!collective.reduces() || collective.self != 0) return;
    for (std::size_t i = 0; i < sent.size(); i += element_bytes) {
      collective.element == Element::float32 ? twice<float>(&sent[i]) : twice<std::int32_t>(&sent[i]);
    }
  }
  void change_received(const Collective& collective, const View& view) override {
    if (gathers(collective)) std::memcpy(last_block(collective, view), view.recv, collective.block(view.bytes));
    if (collective.operation == Operation::broadcast && collective.received_bytes(view.bytes) > 0) {
      std::memcpy(view.recv, view.send, view.bytes);
    }
  }
  template <class Number>
  static void twice(std::byte* at) {
    Number value{};
    std::memcpy(&value, at, sizeof value);
    value *= 2;
    std::memcpy(at, &value, sizeof value);
  }
};

// The blocks of the first and the last rank are in each other's place; of a sum or a broadcast the first and the last
// element are.
class Swapping final : public Broken {
  void change_sent(const Collective& collective, Bytes& sent) override {
    if (collective.reduces() && collective.self == 0) swap_ends(sent.data(), sent.size(), element_bytes);
  }
  void change_received(const Collective& collective, const View& view) override {
    if (gathers(collective)) swap_ends(view.recv, view.bytes, collective.block(view.bytes));
    if (collective.operation == Operation::broadcast && collective.received_bytes(view.bytes) > 0) {
      swap_ends(view.recv, view.bytes, element_bytes);
    }
  }
  static void swap_ends(std::byte* at, std::size_t bytes, std::size_t end_bytes) {
    std::swap_ranges(at, at + end_bytes, at + bytes - end_bytes);
  }
};

// One bit of the result of each batch.
class Corrupting final : public Broken {
 public:
  void perform(const Collective& collective, const View& view, std::uint64_t count) override {
    Broken::perform(collective, view, count);
    const std::uint64_t bytes = collective.received_bytes(view.bytes);
    if (count > 0 && bytes > 0) FlippedBit(flipped_++, bytes).flip(view.recv);
  }

 private:
  std::uint64_t flipped_ = 0;
};

class EarlyCollectives final : public MpiCollectives {
 public:
  void perform(const Collective& collective, const View& view, std::uint64_t count) override {
    const View first{view.send, view.recv, view.bytes};
    MpiCollectives::perform(collective, count > 1 ? first : view, std::min<std::uint64_t>(count, 1));
  }
};

}  // namespace

std::unique_ptr<Transport> make_losing_collectives() { return std::make_unique<Losing>(); }
std::unique_ptr<Transport> make_doubling_collectives() { return std::make_unique<Doubling>(); }
std::unique_ptr<Transport> make_swapping_collectives() { return std::make_unique<Swapping>(); }
std::unique_ptr<Transport> make_corrupting_collectives() { return std::make_unique<Corrupting>(); }
std::unique_ptr<Transport> make_early_collectives() { return std::make_unique<EarlyCollectives>(); }

}  // namespace volley
