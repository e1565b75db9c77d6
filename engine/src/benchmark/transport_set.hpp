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
[[nodiscard]] inline Json transport_record(const TransportEntry& entry, const std::string& reason, const Json& facts) {
  return {{"record", "transport"},
          {"version", record_version},
          {"transport", entry.name},
          {"summary", entry.summary},
          {"mpi", entry.mpi != ThroughMpi::no},
          {"memory", name_of(entry.memory)},
          {"available", reason.empty()},
          {"reason", or_null(reason)},
          {"open_s", nullptr},
          {"threads", nullptr},
          {"facts", facts}};
}

// Of each buffer: for the largest message that fits, and for all messages of a pass where the two buffers then take at
// most a quarter of what this rank may have; the rest is for the transports' own memory.
[[nodiscard]] inline std::uint64_t capacity_for(const std::vector<std::uint64_t>& sizes, std::uint64_t share_bytes) {
  std::uint64_t of_pass = usual_buffer_bytes;
  std::uint64_t largest = 0;
  for (const auto size : sizes) {
    if (bytes_of_buffers(size) > share_bytes) continue;
    largest = std::max(largest, size);
    const std::uint64_t wanted = bytes_of_pass(size);
    if (wanted <= share_bytes / 8) of_pass = std::max(of_pass, wanted);
  }
  return std::max(largest, std::min(of_pass, share_bytes / 8));
}

class TransportSet {
 public:
  using FindTransport = std::function<const TransportEntry*(std::string_view name)>;
  // Asks every transport of the plan on all ranks of the group whether it can be used, for messages between the two
  // ranks or for collectives; `find` knows them all. `cold_caches`: messages are taken from memory, and written there.
  // Tells the watchdog of each, here and in open(). Collective over the group.
  TransportSet(const Context& context, const RankGroup& group, const Plan& plan, Watchdog& watchdog,
               const FindTransport& find = find_transport, bool collectives = false, bool cold_caches = false)
      : group_(group),
        cpus_(context.cpus),
        watchdog_(watchdog),
        wait_s_(wait_share * plan.watchdog_s),
        collectives_(collectives),
        tail_(plan.sampling.tail) {
    if (cold_caches) {
      cold_room_bytes_ = 2 * std::max(last_cache_bytes(), least_cache_bytes);
      VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &cold_room_bytes_, 1, MPI_UINT64_T, MPI_MAX, group.control.get()));
    }
    const Binding wide(cpus_.libraries);
    for (const auto& name : plan.transports) {
      tell_watchdog("checking", name);
      const TransportEntry* entry = find(name);
      const bool lacks = entry->make == nullptr || (collectives && entry->collectives.empty());
      auto transport = lacks ? nullptr : entry->make();
      std::string reason = ruled_out(context, group.ranks, plan, *entry, collectives);
      if (reason.empty() && cold_caches) reason = keeps_warm(*entry, *transport);
      if (reason.empty()) reason = transport->unavailable(context, group);
      reason = agreed_reason(group, reason);
      std::unique_ptr<Memory> own;
      if (reason.empty()) reason = agreed_reason(group, problem_of([&] { own = transport->own_memory(group); }));
      const ArenaKey key{entry->memory, own ? name : ""};
      candidates_.push_back({.entry = entry, .transport = std::move(transport), .arena = key, .reason = reason});
      Arena& arena = arenas_[key];
      if (!reason.empty() || arena.memory) continue;  // an arena is made for the first transport that can use it
      arena.memory = own ? std::move(own) : make_memory(entry->memory);
    }
    host_share_bytes_ = memory_share(context, MemoryKind::host, make_host_memory().get(), group.control.get());
    for (auto& [key, arena] : arenas_) {
      if (!arena.memory) continue;
      const auto of_this_kind = [&](const auto& other) {
        return other.second.memory && other.first.first == key.first;
      };
      const auto arenas = static_cast<std::uint64_t>(std::ranges::count_if(arenas_, of_this_kind));
      arena.share_bytes = memory_share(context, key.first, arena.memory.get(), group.control.get()) / arenas;
    }
  }

  [[nodiscard]] std::vector<Candidate>& candidates() { return candidates_; }

  // Leaves so much of each rank's memory of a kind to the benchmark itself: messages and transports have the rest. A
  // transport of that memory is unavailable if there is not so much. Collective over the group.
  void leave(MemoryKind kind, std::uint64_t bytes) {
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_UINT64_T, MPI_MAX, group_.control.get()));
    for (auto& candidate : candidates_) {
      if (!candidate.reason.empty() || candidate.entry->memory != kind) continue;
      const std::uint64_t share = arenas_.at(candidate.arena).share_bytes;
      if (share < bytes) candidate.reason = lacks(bytes, kind, share);
    }
    for (auto& [key, arena] : arenas_) {
      if (key.first == kind) arena.share_bytes -= std::min(arena.share_bytes, bytes);
    }
    if (kind == MemoryKind::host) host_share_bytes_ -= std::min(host_share_bytes_, bytes);
  }

  [[nodiscard]] Memory& memory(const Candidate& candidate) const { return *arenas_.at(candidate.arena).memory; }

  // Why this transport carries no messages of `bytes`, or why its memory or the host's has no room for them; empty if
  // nothing of that is so. `window` is the workload's.
  [[nodiscard]] std::string too_large(const Candidate& candidate, std::uint64_t bytes,
                                      const std::optional<Window>& window = {}) const {
    const std::string refused = collectives_ ? "" : candidate.transport->refuses(bytes);
    if (!refused.empty()) return refused;
    const Arena& arena = arenas_.at(candidate.arena);
    const std::uint64_t buffers = bytes_of_buffers(std::max(bytes, cold_room_bytes_));
    if (arena.memory && buffers > arena.share_bytes) {
      return lacks(buffers, candidate.entry->memory, arena.share_bytes);
    }
    const std::uint64_t on_host = bytes_on_host(candidate, bytes, window);
    const std::uint64_t left = host_memory_left(candidate, bytes, window);
    return on_host <= left ? "" : lacks(on_host, MemoryKind::host, left);
  }

  // A series of this transport with messages of `bytes`, skipped if that is not possible.
  [[nodiscard]] Series series(const Candidate& candidate, std::uint64_t bytes, bool verify,
                              const std::optional<Window>& window = {}) const {
    const Arena& arena = arenas_.at(candidate.arena);
    Series series;
    series.name = candidate.entry->name;
    series.memory = candidate.entry->memory;
    series.driver = candidate.transport ? candidate.transport->messages() : nullptr;
    series.verifier = arena.memory.get();
    series.verify = verify;
    if (arena.messages) series.messages = arena.messages;
    series.buffer_bytes = arena.buffers.capacity;
    series.view = {arena.buffers.send, arena.buffers.recv, bytes};
    if (cold_room_bytes_ > 0 && arena.memory) series.view = with_places(series.view, cold_room_bytes_);
    series.skipped = candidate.reason.empty() ? too_large(candidate, bytes, window) : candidate.reason;
    if (candidate.transport) series.sharers = static_cast<std::uint64_t>(candidate.transport->threads());
    const std::string once = candidate.transport ? candidate.transport->once_a_batch() : "";
    series.once_a_batch = !once.empty();
    if (series.skipped.empty() && tail_ && series.once_a_batch) {
      series.skipped = "--tail cannot time it: every sample would include " + once;
    }
    return series;
  }

  // Allocates buffers for the largest of `sizes` that fits, and opens every available transport on them. A transport
  // that cannot be opened on one of the ranks is unavailable from then on. Collective over the group.
  void open(const std::vector<std::uint64_t>& sizes) {
    for (auto& [key, arena] : arenas_) {
      if (!arena.memory) continue;
      arena.capacity = capacity_for(sizes, arena.share_bytes);
      const std::uint64_t cold = bytes_of_buffers(cold_room_bytes_) <= arena.share_bytes ? cold_room_bytes_ : 0;
      arena.capacity = std::max(arena.capacity, cold);
      arena.messages = std::make_shared<MessageCheck>();
      watchdog_.progress();
      std::string problem = agreed_reason(group_, problem_of([&] {
        arena.buffers = arena.memory->reserve(arena.capacity);
        // Linux finds a page when it is first written, which takes longer than a message: not while one is timed.
        if (cold > 0) arena.memory->poison(arena.buffers.recv, cold, 0);
      }));
      if (!problem.empty()) problem = "buffers for its messages cannot be allocated: " + problem;
      for (auto& candidate : candidates_) {
        if (candidate.arena == key && candidate.reason.empty()) candidate.reason = problem;
      }
    }
    for (auto& candidate : candidates_) {
      if (candidate.reason.empty()) open(candidate);
    }
  }

  // Closes all transports, then frees the buffers, of which none is mapped any more. Collective over the group.
  void close() {
    for (auto& candidate : candidates_) {
      if (candidate.open) candidate.transport->close();
      candidate.open = false;
    }
    VOLLEY_MPI(MPI_Barrier(group_.control.get()));
    for (auto& [key, arena] : arenas_) {
      if (arena.memory) arena.memory->release();
    }
  }

  void write_records(Records& records) {
    for (auto& candidate : candidates_) {
      candidate.listed = candidate.reason.empty();
      Json record = transport_record(*candidate.entry, candidate.reason, candidate.facts());
      if (candidate.open) {
        record["open_s"] = candidate.open_s;
        record["threads"] = Json::object();
        for (const auto& [cpus, number] : candidate.threads) record["threads"][cpus] = number;
      }
      if (collectives_ && !candidate.entry->collectives.empty()) record["summary"] = candidate.entry->collectives;
      records.write(record);
    }
  }

 private:
  // Where Linux does not say how large caches are.
  static constexpr std::uint64_t least_cache_bytes = std::uint64_t{32} << 20;

  // Why caches cannot be cold for its messages; empty if they can.
  static std::string keeps_warm(const TransportEntry& entry, const Transport& transport) {
    if (entry.memory == MemoryKind::device) return "--cold-cache is about messages in host memory";
    const std::string why = transport.keeps_place();
    return why.empty() ? "" : "--cold-cache gives each message another place, and " + why;
  }

  void open(Candidate& candidate) {
    tell_watchdog("opening", candidate.entry->name);
    const auto begun = Clock::now();
    const Binding wide(cpus_.libraries);
    const std::string problem = problem_of([&] {
      candidate.transport->limit_waits(wait_s_);
      candidate.transport->open(group_, arenas_.at(candidate.arena).buffers);
    });
    candidate.reason = agreed_reason(group_, problem.empty() ? "" : "could not be opened: " + problem);
    candidate.open_s = seconds_since(begun);
    candidate.open = candidate.reason.empty();
    candidate.fresh = true;
    candidate.threads = cpus_of_other_threads();
    if (candidate.open) return;
    candidate.transport->close();
    candidate.transport = candidate.entry->make();
  }

  static std::string lacks(std::uint64_t needed, MemoryKind kind, std::uint64_t free) {
    return "needs " + in_gib(needed) + " of " + name_of(kind) + " memory on each rank, " + in_gib(free) +
           " is free for it";
  }

  // e.g. "opening transport host, pair 0-1".
  void tell_watchdog(const std::string& step, const std::string& transport) {
    watchdog_.enter(step + " transport " + transport + ", " + group_.name);
  }

  // The host memory that message buffers and the transports before this one leave: all of them take turns at a size.
  [[nodiscard]] std::uint64_t host_memory_left(const Candidate& candidate, std::uint64_t bytes,
                                               const std::optional<Window>& window) const {
    std::uint64_t left = host_share_bytes_;
    const auto take = [&](std::uint64_t wanted) {
      left -= wanted <= left ? wanted : 0;
    };  // what does not fit is skipped
    for (const auto& [key, arena] : arenas_) {
      if (arena.memory && key.first == MemoryKind::host)
        take(bytes_of_buffers(std::max<std::uint64_t>(bytes, arena.capacity)));
    }
    for (const auto& other : candidates_) {
      if (&other == &candidate) break;
      if (other.reason.empty()) take(bytes_on_host(other, bytes, window));
    }
    return left;
  }

  // What the transport itself takes.
  [[nodiscard]] std::uint64_t bytes_on_host(const Candidate& candidate, std::uint64_t bytes,
                                            const std::optional<Window>& window) const {
    if (collectives_) return candidate.transport->collectives()->collective_memory_bytes(bytes);
    return candidate.transport->host_memory_bytes(bytes, window);
  }

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
[[nodiscard]] inline double time_left_s(const RankGroup& group, const Plan& plan, const Records& records) {
  return mpi::broadcast_value(budget_left_s(plan, records), 0, group.control.get());
}

// A benchmark of messages of several sizes between two ranks; or of collectives among all, if `collective_` is set when
// the plan is read.
class PairBenchmark : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    options.some_sizes("sizes_bytes", sizes_bytes_, least_bytes());
    if (collective_ || plan.world_size == 2) return;
    options.complain_of_plan(
        "world_size", "`" + plan.benchmark + "` is between exactly 2 ranks, found " + std::to_string(plan.world_size));
  }

  Exit run(const Run& run) final {
    auto group = collective_ ? everyone(*run.context) : make_group(*run.context, {0, 1});
    if (!group) return Exit::good;  // this rank takes no part
    if (collective_) group->make_ring();
    TransportSet transports(*run.context, *group, run.plan, run.watchdog, find_transport, collective_, cold_caches_);
    for (auto& candidate : transports.candidates()) {
      if (candidate.reason.empty()) candidate.reason = unsuitable(candidate);
    }
    for (const auto kind : {MemoryKind::host, MemoryKind::device}) {
      const auto uses_it = [&](const Candidate& each) { return each.reason.empty() && each.entry->memory == kind; };
      if (std::ranges::any_of(transports.candidates(), uses_it)) transports.leave(kind, own_bytes(kind));
    }
    transports.open(opened_sizes());
    transports.write_records(run.records);
    measure(run, *group, transports);
    transports.close();
    return Exit::good;
  }

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
inline void read_cold_cache(PlanObject& options, const Plan& plan, bool& cold_caches) {
  options.boolean("cold_cache", cold_caches);
  if (cold_caches && plan.sampling.fixed) options.complain("cold_cache", "fixed sampling has one place for messages");
}

}  // namespace volley
