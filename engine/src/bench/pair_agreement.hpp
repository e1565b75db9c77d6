// The agreements of two ranks: messages of their control communicator.
#pragma once

#include "../context.hpp"
#include "../measure/agreement.hpp"

namespace volley {

class PairAgreement final : public Agreement {
 public:
  explicit PairAgreement(const Pair& pair) : pair_(pair) {}
  void ready() override;
  void share(void* bytes, std::size_t count, int from) override;

 private:
  const Pair& pair_;
};

}  // namespace volley
