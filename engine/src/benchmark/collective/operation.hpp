// The collective operations, and what their buffers hold.
#pragma once

#include <cstddef>
#include <cstdint>

namespace volley {

enum class Operation { barrier, broadcast, allreduce, reduce_scatter, allgather, all_to_all };

[[nodiscard]] const char* name_of(Operation operation);

// What is reduced; both have 4 bytes.
enum class Element { float32, int32 };
inline constexpr std::size_t element_bytes = 4;

[[nodiscard]] const char* name_of(Element element);

// An operation as one rank takes part in it. `bytes` below is the size of the larger of a rank's two buffers, as
// nccl-tests counts it: what it sends of a broadcast, an allreduce, a reduce-scatter and an all-to-all, what it
// receives of an allgather.
struct Collective {
  static constexpr int root = 0;

  Operation operation = Operation::barrier;
  Element element = Element::float32;
  int ranks = 1;
  int self = 0;

  [[nodiscard]] bool reduces() const {
    return operation == Operation::allreduce || operation == Operation::reduce_scatter;
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
  [[nodiscard]] std::uint64_t sent_bytes(std::uint64_t bytes) const {
    if (operation == Operation::barrier || (operation == Operation::broadcast && self != root)) return 0;
    return operation == Operation::allgather ? block(bytes) : bytes;
  }
  [[nodiscard]] std::uint64_t received_bytes(std::uint64_t bytes) const {
    if (operation == Operation::barrier || (operation == Operation::broadcast && self == root)) return 0;
    return operation == Operation::reduce_scatter ? block(bytes) : bytes;
  }
};

}  // namespace volley
