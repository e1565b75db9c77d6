// MPI's collectives, from and to whatever memory the view points at: `host` uses them on host memory.
#pragma once

#include <mpi.h>

#include "benchmark/collective/transport.hpp"
#include "mpi/check.hpp"

namespace volley {

class MpiCollectives : public CollectiveTransport {
 public:
  [[nodiscard]] std::string unavailable(const Context&, const RankGroup&) override { return {}; }
  void open(const RankGroup& group, const Buffers&) override { comm_ = group.data.get(); }
  void close() override {}

  void prepare_for(const Collective&, const View&) override {}

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
      case Operation::allreduce: VOLLEY_MPI(MPI_Allreduce(from, to, count, type, MPI_SUM, comm_)); break;
      case Operation::reduce_scatter:
        VOLLEY_MPI(MPI_Reduce_scatter_block(from, to, count, type, MPI_SUM, comm_));
        break;
      case Operation::allgather: VOLLEY_MPI(MPI_Allgather(from, count, type, to, count, type, comm_)); break;
      case Operation::all_to_all: VOLLEY_MPI(MPI_Alltoall(from, count, type, to, count, type, comm_)); break;
    }
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace volley
