// Writes and compares elements where they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "benchmark/collective/contents.hpp"
#include "host/memory.hpp"

namespace volley {

// The number of the first wrong element, what it is, and how many bytes are wrong in all.
struct WrongElements {
  std::uint64_t first = 0;
  std::uint32_t found = 0;
  std::uint64_t bytes = 0;
};

class ElementMemory {
 public:
  virtual ~ElementMemory() = default;
  virtual void write(std::byte* at, const Elements& elements) = 0;
  // The complement of each: an element that never arrives is wrong in every byte.
  virtual void write_opposite(std::byte* at, const Elements& elements) = 0;
  // `bytes` is 0 where all are right.
  [[nodiscard]] virtual WrongElements compare(const std::byte* at, const Elements& elements) = 0;
};

// Elements in memory of this kind, which is not MemoryKind::none.
[[nodiscard]] std::unique_ptr<ElementMemory> make_element_memory(MemoryKind kind);

// Those of the current device. In device_elements.cu; without CUDA none is asked for.
[[nodiscard]] std::unique_ptr<ElementMemory> make_device_elements();

// Bytes of two words that differ.
[[nodiscard]] constexpr unsigned bytes_apart(std::uint32_t one, std::uint32_t other) {
  unsigned apart = 0;
  for (std::uint32_t rest = one ^ other; rest != 0; rest >>= 8) apart += (rest & 0xFF) != 0 ? 1 : 0;
  return apart;
}

}  // namespace volley
