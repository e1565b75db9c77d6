// Opens the transports of a plan that a group can use, on buffers from the arenas.
#pragma once

#include "benchmark/benchmark.hpp"
#include "group/agreement.hpp"
#include "transport/collectives.hpp"
#include "transport/registry.hpp"

namespace volley {

// A kind of memory, and the transport that has brought its own; without a name: the one that all others share.
using ArenaKey = std::pair<MemoryKind, std::string>;

struct Candidate {
  const TransportEntry* entry;
  std::unique_ptr<Transport> transport;  // null where the entry has none
  ArenaKey arena;
  std::string reason;                       // why it is unavailable; empty if it is available
  bool open = false;                        // must be closed
  double open_s = 0;                        // how long it took to open; on this rank, which waits for the others
  std::map<std::string, int> threads = {};  // of this process when it was open, as cpus_of_other_threads() counts them
  bool fresh = true;                        // no exchange has used the buffers since they were opened
  bool listed = false;                      // its record says that it is available

  [[nodiscard]] Json facts() const { return transport ? transport->facts() : Json::object(); }
};

// The buffers of a kind of memory.
struct Arena {
  std::unique_ptr<Memory> memory;  // null for MemoryKind::none
  std::uint64_t share_bytes = 0;   // that each rank may allocate here; the same on all ranks
  std::uint64_t capacity = 0;      // of each buffer, once there are any
  Buffers buffers;
  std::shared_ptr<MessageCheck> messages;  // in these buffers
};

// The record of a transport. This job cannot use it if there is a `reason`.
[[nodiscard]] Json transport_record(const TransportEntry& entry, const std::string& reason, const Json& facts);

class TransportSet {
 public:
  using FindTransport = std::function<const TransportEntry*(std::string_view name)>;
  // Asks every transport of the plan on all ranks of the group whether it can be used, for messages between the two
  // ranks or for collectives; `find` knows them all. `cold_caches`: messages are taken from memory, and written there.
  // Tells the watchdog of each, here and in open(). Collective over the group.
  TransportSet(const Context& context, const RankGroup& group, const Plan& plan, Watchdog& watchdog,
               const FindTransport& find = find_transport, bool collectives = false, bool cold_caches = false);

  [[nodiscard]] std::vector<Candidate>& candidates() { return candidates_; }

  // Leaves so much of each rank's memory of a kind to the benchmark itself: messages and transports have the rest. A
  // transport of that memory is unavailable if there is not so much. Collective over the group.
  void leave(MemoryKind kind, std::uint64_t bytes);

  [[nodiscard]] Memory& memory(const Candidate& candidate) const { return *arenas_.at(candidate.arena).memory; }

  // Why this transport carries no messages of `bytes`, or why its memory or the host's has no room for them; empty if
  // nothing of that is so. `window` is the workload's.
  [[nodiscard]] std::string too_large(const Candidate& candidate, std::uint64_t bytes,
                                      const std::optional<Window>& window = {}) const;

  // A series of this transport with messages of `bytes`, skipped if that is not possible.
  [[nodiscard]] Series series(const Candidate& candidate, std::uint64_t bytes, bool verify,
                              const std::optional<Window>& window = {}) const;

  // Allocates buffers for the largest of `sizes` that fits, and opens every available transport on them. A transport
  // that cannot be opened on one of the ranks is unavailable from then on. Collective over the group.
  void open(const std::vector<std::uint64_t>& sizes);

  // Closes all transports, then frees the buffers, of which none is mapped any more. Collective over the group.
  void close();

  void write_records(Records& records);

 private:
  void open(Candidate& candidate);

  // The host memory that message buffers and the transports before this one leave: all of them take turns at a size.
  [[nodiscard]] std::uint64_t host_memory_left(const Candidate& candidate, std::uint64_t bytes,
                                               const std::optional<Window>& window) const;

  // What the transport itself takes.
  [[nodiscard]] std::uint64_t bytes_on_host(const Candidate& candidate, std::uint64_t bytes,
                                            const std::optional<Window>& window) const;

  const RankGroup& group_;
  const RankCpus& cpus_;
  Watchdog& watchdog_;
  const double wait_s_;
  const bool collectives_;
  const bool tail_;                    // a sample is a batch of one
  std::uint64_t cold_room_bytes_ = 0;  // of a buffer, twice the largest cache, if no cache may have the messages
  std::vector<Candidate> candidates_;
  std::map<ArenaKey, Arena> arenas_;
  std::uint64_t host_share_bytes_ = 0;  // of host memory that each rank may allocate; the same on all ranks
};

// What is left of the time budget, as the first rank knows it. Collective over the group.
[[nodiscard]] double time_left_s(const RankGroup& group, const Plan& plan, const Records& records);

// A benchmark of messages of several sizes between two ranks; or of collectives among all, if `collective_` is set when
// the plan is read.
class SweepBenchmark : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override;

  Exit run(const Run& run) final;

 protected:
  // Why this benchmark cannot measure a transport; empty if it can.
  [[nodiscard]] virtual std::string unsuitable(const Candidate&) const { return {}; }
  // The memory of a kind that this benchmark needs on this rank beside messages, where a transport has messages there.
  [[nodiscard]] virtual std::uint64_t own_bytes(MemoryKind) const { return 0; }
  // Measures all sizes and writes their records. Collective over the group.
  virtual void measure(const Run& run, const RankGroup& group, TransportSet& transports) = 0;
  // Of a message: 0 where an empty one is measured too.
  [[nodiscard]] virtual std::uint64_t least_bytes() const { return 1; }
  // The sizes for which the transports are opened at first.
  [[nodiscard]] virtual std::vector<std::uint64_t> opened_sizes() const { return sizes_bytes_; }

  std::vector<std::uint64_t> sizes_bytes_;
  bool collective_ = false;
  bool cold_caches_ = false;
};

// The option `cold_cache` of several benchmarks.
void read_cold_cache(PlanObject& options, const Plan& plan, bool& cold_caches);

}  // namespace volley
