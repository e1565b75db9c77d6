// What the two ends of a pair tell each other outside the timed region.
#pragma once

#include <cstddef>
#include <type_traits>

namespace volley {

class Agreement {
 public:
  virtual ~Agreement() = default;

  // Both have done with their buffers. The first says so; the second answers as it enters the batch, and the first
  // starts its clock when it hears that.
  virtual void ready() = 0;

  // `bytes` of one end, the first (0) or the second (1), at both.
  virtual void share(void* bytes, std::size_t count, int from) = 0;

  // A trivially copyable value of one end at both.
  template <class Value>
  [[nodiscard]] Value shared(Value value, int from = 0) {
    static_assert(std::is_trivially_copyable_v<Value>);
    share(&value, sizeof value, from);
    return value;
  }
};

// One process has both ends, and agrees with itself.
class AgreementAlone final : public Agreement {
 public:
  void ready() override {}
  void share(void*, std::size_t, int) override {}
};

}  // namespace volley
