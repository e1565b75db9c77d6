// Verifies the result of a collective on each rank: it tells which rank's contribution is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "host/memory.hpp"
#include "transport/collectives.hpp"

namespace volley {

// The most ranks whose sums are exact with so many varying bits at least.
[[nodiscard]] int max_ranks(Element element);

// What this rank contributes: `bytes` of its send buffer, and what must arrive. Barriers have neither.
[[nodiscard]] Elements contributed(const Collective& collective, std::uint64_t bytes, const Contents& contents);
[[nodiscard]] Elements expected(const Collective& collective, std::uint64_t bytes, const Contents& contents);

class CollectiveVerifier final : public Verifier {
 public:
  // `bytes` of the larger buffer, a whole number of elements for each rank; the buffers lie in `memory`.
  CollectiveVerifier(const Collective& collective, std::uint64_t bytes, Memory& memory)
      : collective_(collective), bytes_(bytes), memory_(memory) {}

  // What this rank contributes, and the contributions of the messages behind the first.
  void fill(std::byte* message, std::size_t bytes, const Contents& contents) override;
  // In place of what this rank must get of it, and guards around that.
  void poison(std::byte* message, std::size_t bytes, const Contents& contents) override;
  [[nodiscard]] std::optional<Mismatch> check(const std::byte* message, std::size_t bytes,
                                              const Contents& contents) override;

  // What the first mismatch on this rank means, for people; empty where there was none.
  [[nodiscard]] const std::string& diagnosis() const { return diagnosis_; }

 private:
  const Collective collective_;
  const std::uint64_t bytes_;
  Memory& memory_;
  std::string diagnosis_;
};

}  // namespace volley
