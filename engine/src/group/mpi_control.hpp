// The agreements of two ranks: messages of their control communicator.
#pragma once

#include "group/rank_group.hpp"
#include "measure/control.hpp"

namespace volley {

class MpiControl final : public PairControl {
 public:
  explicit MpiControl(const RankGroup& pair)
      : PairControl({pair.rank(0), pair.rank(1)}, pair.self, pair.peer()), comm_(pair.control.get()) {}
  void ready() override;
  void share(void* bytes, std::size_t count, int from) override;

 private:
  MPI_Comm comm_;
};

}  // namespace volley
