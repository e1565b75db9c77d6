// Communication between the two ends of a pair outside the timed region.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

namespace volley {

class PairControl {
 public:
  // `ids` name the two ends in messages: world ranks, or numbers of GPUs. `self` is this process's end, `peer` the
  // other one; a process that has both ends is its own peer.
  PairControl(const std::array<int, 2>& ids, int self, int peer) : ids_(ids), self_(self), peer_(peer) {}
  virtual ~PairControl() = default;

  [[nodiscard]] bool leads() const { return self_ == 0; }
  [[nodiscard]] int self() const { return self_; }
  [[nodiscard]] int peer() const { return peer_; }
  [[nodiscard]] const std::array<int, 2>& ids() const { return ids_; }

  // Both ends have finished with their buffers. The first end sends a message; the second answers when it enters the
  // batch, and the first end starts its clock when the answer arrives.
  virtual void ready() = 0;

  // `count` bytes of one end, the first (0) or the second (1), at both.
  virtual void share(void* bytes, std::size_t count, int from) = 0;

  // A trivially copyable value of one end at both.
  template <class Value>
  [[nodiscard]] Value shared(Value value, int from = 0) {
    static_assert(std::is_trivially_copyable_v<Value>);
    share(&value, sizeof value, from);
    return value;
  }

 protected:
  std::array<int, 2> ids_;

 private:
  int self_;
  int peer_;
};

// One process has both ends, so no communication is necessary.
class LocalControl final : public PairControl {
 public:
  LocalControl(int first, int second) : PairControl({first, second}, 0, 0) {}
  void between(int first, int second) { ids_ = {first, second}; }
  void ready() override {}
  void share(void*, std::size_t, int) override {}
};

}  // namespace volley
