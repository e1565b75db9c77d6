// Opens the transports of a plan that a group can use, on buffers from the arenas.
#pragma once

#include "benchmark/benchmark.hpp"
#include "transport/registry.hpp"

namespace volley {

// A kind of memory, and the transport that has brought its own; without a name: the one that all others share.
using ArenaKey = std::pair<MemoryKind, std::string>;

struct Candidate {
  const TransportEntry* entry;
  std::unique_ptr<Transport> transport;  // null where the entry has none
  ArenaKey arena;
  std::string reason;   // why it is unavailable; empty if it is available
  bool open = false;    // must be closed
  double open_s = 0;    // how long it took to open; on this rank, which waits for the others
  bool fresh = true;    // no exchange has used the buffers since they were opened
  bool listed = false;  // its record says that it is available

  [[nodiscard]] Json facts() const { return transport ? transport->facts() : Json::object(); }
};

// The buffers of a kind of memory.
struct Arena {
  std::unique_ptr<Memory> memory;  // null for MemoryKind::none
  std::uint64_t share_bytes = 0;   // that each rank may allocate here; the same on all ranks
  std::uint64_t capacity = 0;      // of each buffer, once there are any
  Buffers buffers;
};

class TransportSet {
 public:
  using FindTransport = std::function<const TransportEntry*(std::string_view name)>;
  // Asks every transport of the plan on all ranks of the group whether it can be used, for messages between the two
  // ranks or for collectives; `find` knows them all. Tells the watchdog of each, here and in open(). Collective over
  // the group.
  TransportSet(const Context& context, const RankGroup& group, const Plan& plan, Watchdog& watchdog,
               const FindTransport& find = find_transport, bool collectives = false);

  [[nodiscard]] std::vector<Candidate>& candidates() { return candidates_; }

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
  void tell_watchdog(const std::string& step, const std::string& transport);
  [[nodiscard]] std::uint64_t host_memory_left(const Candidate& candidate, std::uint64_t bytes,
                                               const std::optional<Window>& window) const;
  [[nodiscard]] std::uint64_t bytes_on_host(const Candidate& candidate, std::uint64_t bytes,
                                            const std::optional<Window>& window) const;

  const RankGroup& group_;
  Watchdog& watchdog_;
  const double wait_s_;
  const bool collectives_;
  const bool tail_;  // a sample is a batch of one
  std::vector<Candidate> candidates_;
  std::map<ArenaKey, Arena> arenas_;
  std::uint64_t host_share_bytes_ = 0;  // of host memory that each rank may allocate; the same on all ranks
};

// What is left of the time budget, as the first rank knows it. Collective over the group.
[[nodiscard]] double time_left_s(const RankGroup& group, const Plan& plan, const Records& records);

// The record of a transport. This job cannot use it if there is a `reason`.
[[nodiscard]] Json transport_record(const TransportEntry& entry, const std::string& reason, const Json& facts,
                                    std::optional<double> open_s = {});

// A benchmark of messages of several sizes between two ranks.
class PairBenchmark : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    options.some_sizes("sizes_bytes", sizes_bytes_, least_bytes());
    if (plan.world_size == 2) return;
    options.complain_of_plan(
        "world_size", "`" + plan.benchmark + "` is between exactly 2 ranks, found " + std::to_string(plan.world_size));
  }

  Exit run(const Run& run) final {
    const auto pair = make_group(*run.context, {0, 1});
    if (!pair) return Exit::good;  // this rank takes no part
    TransportSet transports(*run.context, *pair, run.plan, run.watchdog);
    for (auto& candidate : transports.candidates()) {
      if (candidate.reason.empty()) candidate.reason = unsuitable(*candidate.entry);
    }
    transports.open(opened_sizes());
    transports.write_records(run.records);
    measure(run, *pair, transports);
    transports.close();
    return Exit::good;
  }

 protected:
  // Why this benchmark cannot measure a transport; empty if it can.
  [[nodiscard]] virtual std::string unsuitable(const TransportEntry&) const { return {}; }
  // Measures all sizes and writes their records. Collective over the two ranks.
  virtual void measure(const Run& run, const RankGroup& pair, TransportSet& transports) = 0;
  // Of a message: 0 where an empty one is measured too.
  [[nodiscard]] virtual std::int64_t least_bytes() const { return 1; }
  // The sizes for which the transports are opened at first.
  [[nodiscard]] virtual std::vector<std::uint64_t> opened_sizes() const { return sizes_bytes_; }

  std::vector<std::uint64_t> sizes_bytes_;
};

}  // namespace volley
