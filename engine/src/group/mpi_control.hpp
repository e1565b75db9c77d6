// The agreements of two ranks: messages of their control communicator.
#pragma once

#include "group/rank_group.hpp"
#include "measure/control.hpp"

namespace volley {

class MpiControl final : public PairControl {
 public:
  explicit MpiControl(const RankGroup& pair)
      : PairControl({pair.rank(0), pair.rank(1)}, pair.self, pair.peer()), comm_(pair.control.get()) {}

  void ready() override {
    if (leads()) VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, peer(), 0, comm_));
    VOLLEY_MPI(MPI_Recv(nullptr, 0, MPI_BYTE, peer(), 0, comm_, MPI_STATUS_IGNORE));
    if (!leads()) VOLLEY_MPI(MPI_Send(nullptr, 0, MPI_BYTE, peer(), 0, comm_));
  }
  void share(void* bytes, std::size_t count, int from) override {
    VOLLEY_MPI(MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, from, comm_));
  }

 private:
  MPI_Comm comm_;
};

}  // namespace volley
