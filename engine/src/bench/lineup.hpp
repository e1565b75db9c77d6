// The transports of a plan: which can be used by this pair, opened on buffers from the arenas.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../context.hpp"
#include "../measure/point.hpp"
#include "../record/plan.hpp"
#include "../transport/registry.hpp"

namespace volley {

struct Player {
  const TransportEntry* entry;
  std::unique_ptr<Transport> transport;
  std::string reason;  // why it is unavailable; empty when it is not
  bool fresh = true;   // no exchange has used the buffers since they were opened
};

// What one kind of memory can hold, and the buffers in it.
struct Arena {
  std::unique_ptr<Memory> memory;  // null for MemoryKind::none
  std::uint64_t share_bytes = 0;   // what each rank may take of it, agreed by both
  Buffers buffers;
};

class Lineup {
 public:
  // Asks every transport of the plan on both ranks whether it can be used. Collective over the pair.
  Lineup(const Context& context, const Pair& pair, const Plan& plan);
  ~Lineup();
  Lineup(const Lineup&) = delete;
  Lineup& operator=(const Lineup&) = delete;

  [[nodiscard]] std::vector<Player>& players() { return players_; }

  // Why a message of `bytes` cannot be had in this transport's memory; empty when it can.
  [[nodiscard]] std::string too_large(const Player& player, std::uint64_t bytes) const;

  // A point of this transport with messages of `bytes`, skipped where that cannot be; `verify` as the plan wants it.
  [[nodiscard]] Point point(const Player& player, std::uint64_t bytes, bool verify) const;

  // Buffers for messages of up to the largest of `sizes` that fits, and every available transport opened on them.
  // Where one rank cannot, its exception ends the job for both: the other may be waiting for it within `open`.
  void open(const std::vector<std::uint64_t>& sizes);
  // Closes every transport, then gives the buffers back: mappings go before what they map.
  void close();

 private:
  const Context& context_;
  const Pair& pair_;
  std::vector<Player> players_;
  std::map<MemoryKind, Arena> arenas_;
  bool open_ = false;
};

// The first non-empty reason of the pair's ranks, with the rank that gave it. Collective over the pair.
[[nodiscard]] std::string agreed_reason(const Pair& pair, const std::string& mine);

}  // namespace volley
