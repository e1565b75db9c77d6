// Collective operations as a transport carries them, and those of MPI.
#pragma once

#include "transport/transport.hpp"

namespace volley {

enum class Operation { barrier, broadcast, reduce, allreduce, reduce_scatter, allgather, all_to_all };

[[nodiscard]] inline const char* name_of(Operation operation) {
  constexpr std::array names{"barrier",        "broadcast", "reduce",    "allreduce",
                             "reduce-scatter", "allgather", "all-to-all"};
  return names[static_cast<std::size_t>(operation)];
}

// What is reduced; both have 4 bytes.
enum class Element { float32, int32 };
[[nodiscard]] inline const char* name_of(Element element) { return element == Element::float32 ? "float" : "int"; }

// An operation as one rank takes part in it. `bytes` below is the size of the larger of a rank's two buffers, as
// nccl-tests counts it: what it sends of a broadcast, a reduce, an allreduce, a reduce-scatter and an all-to-all, what
// it receives of an allgather.
struct Collective {
  static constexpr int root = 0;

  Operation operation = Operation::barrier;
  Element element = Element::float32;
  int ranks = 1;
  int self = 0;

  [[nodiscard]] bool reduces() const {
    return operation == Operation::reduce || operation == Operation::allreduce ||
           operation == Operation::reduce_scatter;
  }
  // Whether each rank has a block of the larger buffer.
  [[nodiscard]] bool in_blocks() const {
    return operation == Operation::reduce_scatter || operation == Operation::allgather ||
           operation == Operation::all_to_all;
  }
  // `bytes` rounded down to whole elements, the same number for each rank where each has a block.
  [[nodiscard]] std::uint64_t whole(std::uint64_t bytes) const {
    const std::uint64_t unit = element_bytes * (in_blocks() ? static_cast<std::uint64_t>(ranks) : 1);
    return bytes / unit * unit;
  }
  [[nodiscard]] std::uint64_t block(std::uint64_t bytes) const { return bytes / static_cast<std::uint64_t>(ranks); }
  // Elements that MPI and NCCL count: of the whole message, or of a block.
  [[nodiscard]] std::uint64_t counted(std::uint64_t bytes) const {
    return (in_blocks() ? block(bytes) : bytes) / element_bytes;
  }
  // Bytes that this rank sends and receives; the root of a broadcast receives nothing, and the others send nothing.
  // Of a reduce only the root receives.
  [[nodiscard]] std::uint64_t sent_bytes(std::uint64_t bytes) const {
    if (operation == Operation::barrier || (operation == Operation::broadcast && self != root)) return 0;
    return operation == Operation::allgather ? block(bytes) : bytes;
  }
  [[nodiscard]] std::uint64_t received_bytes(std::uint64_t bytes) const {
    if (operation == Operation::barrier || (operation == Operation::broadcast && self == root) ||
        (operation == Operation::reduce && self != root)) {
      return 0;
    }
    return operation == Operation::reduce_scatter ? block(bytes) : bytes;
  }
};

// Carries collectives among the ranks of a group; all of them make every call.
class Collectives {
 public:
  virtual ~Collectives() = default;

  // The most bytes of host memory that this rank takes for operations of this length besides the buffers.
  [[nodiscard]] virtual std::uint64_t collective_memory_bytes(std::uint64_t) const { return 0; }

  // What repeats this collective; this object outlives it.
  [[nodiscard]] virtual std::unique_ptr<Driver> driver(const Collective& collective);

  // Prepares for `perform` of this collective with this view, whose `bytes` are those of the larger buffer.
  virtual void prepare_for(const Collective&, const View&) {}

  // `count` operations back to back. What is timed: returns when this rank's result is usable. Operation i takes
  // view.message(i), the last one view.last().message(i).
  virtual void perform(const Collective&, const View&, std::uint64_t) {}

 protected:
  // Calls operation(view) for each of `count`, as `perform` must.
  template <class Perform>
  static void for_each_operation(const View& view, std::uint64_t count, Perform operation) {
    const View last = view.last();
    for (std::uint64_t i = 1; i <= count; ++i) operation((i < count ? view : last).message(i - 1));
  }
};

class CollectiveDriver final : public Driver {
 public:
  CollectiveDriver(Collectives& collectives, const Collective& collective)
      : collectives_(collectives), collective_(collective) {}
  void prepare(const View& view, const std::optional<Window>&) override { collectives_.prepare_for(collective_, view); }
  void run(const View& view, std::uint64_t count, const std::optional<Window>&) override {
    collectives_.perform(collective_, view, count);
  }

 private:
  Collectives& collectives_;
  const Collective collective_;
};

inline std::unique_ptr<Driver> Collectives::driver(const Collective& collective) {
  return std::make_unique<CollectiveDriver>(*this, collective);
}

// MPI's collectives, from and to whatever memory the view points at.
class MpiCollectives : public Collectives {
 public:
  void join(const RankGroup& group) { comm_ = group.data.get(); }

  void perform(const Collective& collective, const View& view, std::uint64_t count) override {
    const Call call = call_of(collective, view);
    for_each_operation(view, count, [&](const View& here) { once(call, here.send, here.recv); });
  }

 protected:
  // An operation with what MPI wants to know of its buffers.
  struct Call {
    Operation operation;
    bool root;
    int count;  // elements of the whole message, or of a block
    MPI_Datatype type;
  };

  [[nodiscard]] static Call call_of(const Collective& collective, const View& view) {
    return {collective.operation, collective.self == Collective::root, static_cast<int>(collective.counted(view.bytes)),
            collective.element == Element::float32 ? MPI_FLOAT : MPI_INT32_T};
  }

  void once(const Call& call, const void* from, void* to) const {
    const auto& [operation, root, count, type] = call;
    switch (operation) {
      case Operation::barrier: VOLLEY_MPI(MPI_Barrier(comm_)); break;
      case Operation::broadcast:  // the root's buffer is only read
        VOLLEY_MPI(MPI_Bcast(root ? const_cast<void*>(from) : to, count, type, Collective::root, comm_));
        break;
      case Operation::reduce: VOLLEY_MPI(MPI_Reduce(from, to, count, type, MPI_SUM, Collective::root, comm_)); break;
      case Operation::allreduce: VOLLEY_MPI(MPI_Allreduce(from, to, count, type, MPI_SUM, comm_)); break;
      case Operation::reduce_scatter:
        VOLLEY_MPI(MPI_Reduce_scatter_block(from, to, count, type, MPI_SUM, comm_));
        break;
      case Operation::allgather: VOLLEY_MPI(MPI_Allgather(from, count, type, to, count, type, comm_)); break;
      case Operation::all_to_all: VOLLEY_MPI(MPI_Alltoall(from, count, type, to, count, type, comm_)); break;
    }
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace volley
