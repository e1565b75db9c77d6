#include "benchmark/collective/element_memory.hpp"

#include <algorithm>
#include <cstring>

namespace volley {

namespace {

// Calls visit(i, element i) for all; a piece is a plain loop.
template <class Visit>
void for_each_element(const Elements& elements, Visit visit) {
  int rank = elements.rank;
  for (std::uint64_t begin = 0; begin < elements.count; begin += elements.piece, ++rank) {
    const std::uint64_t end = std::min(begin + elements.piece, elements.count);
    for (std::uint64_t i = begin; i < end; ++i) {
      visit(i, elements.of.element(rank, elements.position + i - begin));
    }
  }
}

class HostElements final : public ElementMemory {
 public:
  void write(std::byte* at, const Elements& elements) override { put(at, elements, 0); }
  void write_opposite(std::byte* at, const Elements& elements) override { put(at, elements, ~std::uint32_t{0}); }

  WrongElements compare(const std::byte* at, const Elements& elements) override {
    WrongElements wrong;
    for_each_element(elements, [&](std::uint64_t i, std::uint32_t element) {
      std::uint32_t found = 0;
      std::memcpy(&found, at + i * element_bytes, element_bytes);
      if (found == element) return;
      if (wrong.bytes == 0) wrong = {i, found, 0};
      wrong.bytes += bytes_apart(found, element);
    });
    return wrong;
  }

 private:
  static void put(std::byte* at, const Elements& elements, std::uint32_t mask) {
    for_each_element(elements, [&](std::uint64_t i, std::uint32_t element) {
      const std::uint32_t word = element ^ mask;
      std::memcpy(at + i * element_bytes, &word, element_bytes);
    });
  }
};

}  // namespace

std::unique_ptr<ElementMemory> make_element_memory(MemoryKind kind) {
  if (kind == MemoryKind::device) return make_device_elements();
  return std::make_unique<HostElements>();
}

}  // namespace volley
