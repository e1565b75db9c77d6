// The transports of a plan: which can be used by this pair, opened on buffers from the arenas.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "group/context.hpp"
#include "host/memory.hpp"
#include "measure/series.hpp"
#include "record/json.hpp"
#include "record/plan.hpp"
#include "record/records.hpp"
#include "transport/registry.hpp"

namespace volley {

struct Candidate {
  const TransportEntry* entry;
  std::unique_ptr<Transport> transport;
  std::string reason;   // why it is unavailable; empty when it is not
  bool open = false;    // and must be closed
  bool fresh = true;    // no exchange has used the buffers since they were opened
  bool listed = false;  // its record says that it is available
};

// What one kind of memory can hold, and the buffers in it.
struct Arena {
  std::unique_ptr<Memory> memory;  // null for MemoryKind::none
  std::uint64_t share_bytes = 0;   // what each rank may take of it, agreed by all
  Buffers buffers;
  std::size_t capacity = 0;  // of each buffer
};

class TransportSet {
 public:
  // Asks every transport of the plan on all ranks of the group whether it can be used; `entries` has them all.
  // Collective over the group.
  TransportSet(const Context& context, const RankGroup& group, const Plan& plan,
               std::span<const TransportEntry> entries = registry());

  [[nodiscard]] std::vector<Candidate>& candidates() { return candidates_; }

  // What holds the buffers of a transport that is available.
  [[nodiscard]] Memory& memory(const Candidate& candidate) const { return *arenas_.at(candidate.entry->memory).memory; }

  // Why a message of `bytes` cannot be had in this transport's memory; empty when it can.
  [[nodiscard]] std::string too_large(const Candidate& candidate, std::uint64_t bytes) const;

  // A series of this transport with messages of `bytes`, skipped where that cannot be; `verify` as the plan wants it.
  [[nodiscard]] Series series(const Candidate& candidate, std::uint64_t bytes, bool verify) const;

  // Buffers for messages of up to the largest of `sizes` that fits, and every available transport opened on them. One
  // that cannot be opened on one of the ranks is unavailable from then on. Collective over the group.
  void open(const std::vector<std::uint64_t>& sizes);
  // Closes every transport, then gives the buffers back: mappings go before what they map. Collective over the group.
  void close();

  // Writes a record for each transport.
  void write_records(Records& records);

 private:
  void open(Candidate& candidate, std::uint64_t capacity);

  const Context& context_;
  const RankGroup& group_;
  std::vector<Candidate> candidates_;
  std::map<MemoryKind, Arena> arenas_;
};

// Whether this job can use the transport, and why not when `reason` is not empty.
[[nodiscard]] Json transport_record(const TransportEntry& entry, const std::string& reason, const Json& facts);

}  // namespace volley
