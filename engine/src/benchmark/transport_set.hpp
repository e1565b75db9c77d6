// The transports of a plan: which can be used by this pair, opened on buffers from the arenas.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "group/context.hpp"
#include "measure/memory.hpp"
#include "measure/series.hpp"
#include "record/json.hpp"
#include "record/plan.hpp"
#include "transport/registry.hpp"

namespace volley {

struct Candidate {
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

class TransportSet {
 public:
  // Asks every transport of the plan on both ranks whether it can be used. Collective over the pair.
  TransportSet(const Context& context, const RankGroup& pair, const Plan& plan);
  ~TransportSet();
  TransportSet(const TransportSet&) = delete;
  TransportSet& operator=(const TransportSet&) = delete;

  [[nodiscard]] std::vector<Candidate>& candidates() { return candidates_; }

  // Why a message of `bytes` cannot be had in this transport's memory; empty when it can.
  [[nodiscard]] std::string too_large(const Candidate& candidate, std::uint64_t bytes) const;

  // A series of this transport with messages of `bytes`, skipped where that cannot be; `verify` as the plan wants it.
  [[nodiscard]] Series series(const Candidate& candidate, std::uint64_t bytes, bool verify) const;

  // Buffers for messages of up to the largest of `sizes` that fits, and every available transport opened on them.
  // Where one rank cannot, its exception ends the job for both: the other may be waiting for it within `open`.
  void open(const std::vector<std::uint64_t>& sizes);
  // Closes every transport, then gives the buffers back: mappings go before what they map.
  void close();

 private:
  const Context& context_;
  const RankGroup& pair_;
  std::vector<Candidate> candidates_;
  std::map<MemoryKind, Arena> arenas_;
  bool open_ = false;
};

// Whether this job can use the transport, and why not when `reason` is not empty.
[[nodiscard]] Json transport_record(const TransportEntry& entry, const std::string& reason, const Json& facts);

}  // namespace volley
