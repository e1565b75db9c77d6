// Verifies the result of a collective on each rank.
#pragma once

#include <optional>
#include <string>

#include "benchmark/collective/contents.hpp"
#include "host/memory.hpp"
#include "transport/collectives.hpp"

namespace volley {

class CollectiveVerifier final : public Verifier {
 public:
  // `bytes` of the larger buffer, a whole number of elements for each rank; the buffers lie in `memory`.
  CollectiveVerifier(const Collective& collective, std::uint64_t bytes, Memory& memory, ElementMemory& elements)
      : collective_(collective), bytes_(bytes), memory_(memory), elements_(elements) {}

  // What this rank contributes, and the contributions of the messages behind the first.
  void fill(std::byte* message, std::size_t bytes, const Contents& contents) override;
  // In place of what this rank must get of it, and guards around that.
  void poison(std::byte* message, std::size_t bytes, const Contents& contents) override;
  [[nodiscard]] std::optional<Mismatch> check(const std::byte* message, std::size_t bytes,
                                              const Contents& contents) override;

  // What the first mismatch on this rank means, for people; empty where there was none.
  [[nodiscard]] const std::string& diagnosis() const { return diagnosis_; }

 private:
  [[nodiscard]] std::optional<Mismatch> check_guard(const std::byte* guard, std::int64_t offset,
                                                    const Contents& contents);

  const Collective collective_;
  const std::uint64_t bytes_;
  Memory& memory_;
  ElementMemory& elements_;
  std::string diagnosis_;
};

}  // namespace volley
