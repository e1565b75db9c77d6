#include <algorithm>
#include <cstring>

#include "benchmark/collective/contents.hpp"

namespace volley {

namespace {

constexpr std::uint64_t exact_below(Element element) {
  return element == Element::float32 ? std::uint64_t{1} << 24 : std::uint64_t{1} << 31;
}

// How many bits vary by position; 0 where not even the numbers of the ranks can be summed.
std::uint32_t varying_bits(Element element, std::uint64_t ranks) {
  constexpr std::uint32_t most = 20;
  const std::uint64_t fixed = ranks * (ranks + 1) + ranks * (ranks - 1) / 2;
  std::uint32_t bits = 0;
  while (bits < most && fixed + (ranks << (bits + 1)) <= exact_below(element)) ++bits;
  return bits;
}

Contributions contributions(const Collective& collective, const Contents& contents) {
  return {.reduces = collective.reduces(),
          .floats = collective.element == Element::float32,
          .ranks = static_cast<std::uint32_t>(collective.ranks),
          .bits = varying_bits(collective.element, static_cast<std::uint64_t>(collective.ranks)),
          .start = mixed(contents.seed)};
}

std::uint64_t first_element(const Contents& contents) {
  return contents.first_word * (sizeof(std::uint64_t) / element_bytes);
}

}  // namespace

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::barrier: return "barrier";
    case Operation::broadcast: return "broadcast";
    case Operation::allreduce: return "allreduce";
    case Operation::reduce_scatter: return "reduce-scatter";
    case Operation::allgather: return "allgather";
    case Operation::all_to_all: return "all-to-all";
  }
  return "";
}

const char* name_of(Element element) { return element == Element::float32 ? "float" : "int"; }

int max_ranks(Element element) {
  int most = 1;
  while (varying_bits(element, static_cast<std::uint64_t>(most) + 1) >= Contributions::min_bits) ++most;
  return most;
}

Elements contributed(const Collective& collective, std::uint64_t bytes, const Contents& contents) {
  const std::uint64_t count = bytes / element_bytes;
  return {.of = contributions(collective, contents),
          .piece = count,
          .position = first_element(contents),
          .rank = collective.self,
          .count = count};
}

Elements expected(const Collective& collective, std::uint64_t bytes, const Contents& contents) {
  const std::uint64_t count = collective.received_bytes(bytes) / element_bytes;
  const std::uint64_t block = collective.block(bytes) / element_bytes;
  const std::uint64_t mine = static_cast<std::uint64_t>(collective.self) * block;
  Elements all{.of = contributions(collective, contents),
               .piece = count,
               .position = first_element(contents),
               .rank = collective.reduces() ? Contributions::sum : Collective::root,
               .count = count};
  if (collective.operation == Operation::reduce_scatter || collective.operation == Operation::all_to_all) {
    all.position += mine;
  }
  if (collective.operation == Operation::allgather || collective.operation == Operation::all_to_all) all.piece = block;
  return all;
}

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
