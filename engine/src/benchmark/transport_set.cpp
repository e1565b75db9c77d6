#include "benchmark/transport_set.hpp"

#include <algorithm>

namespace volley {
namespace {

// Of each buffer: for the largest message that fits, and for all messages of a pass where the two buffers then take at
// most a quarter of what this rank may have; the rest is for the transports' own memory.
std::uint64_t capacity_for(const std::vector<std::uint64_t>& sizes, std::uint64_t share_bytes) {
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

// Where Linux does not say how large caches are.
constexpr std::uint64_t least_cache_bytes = std::uint64_t{32} << 20;

// Why caches cannot be cold for its messages; empty if they can.
std::string keeps_warm(const TransportEntry& entry, const Transport& transport) {
  if (entry.memory == MemoryKind::device) return "--cold-cache is about messages in host memory";
  const std::string why = transport.keeps_place();
  return why.empty() ? "" : "--cold-cache gives each message another place, and " + why;
}

std::string lacks(std::uint64_t needed, MemoryKind kind, std::uint64_t free) {
  return "needs " + in_gib(needed) + " of " + name_of(kind) + " memory on each rank, " + in_gib(free) +
         " is free for it";
}

}  // namespace

Json transport_record(const TransportEntry& entry, const std::string& reason, const Json& facts) {
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

TransportSet::TransportSet(const Context& context, const RankGroup& group, const Plan& plan, Watchdog& watchdog,
                           const FindTransport& find, bool collectives, bool cold_caches)
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
    watchdog_.enter("checking transport " + name + ", " + group.name);
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
    const auto of_this_kind = [&](const auto& other) { return other.second.memory && other.first.first == key.first; };
    const auto arenas = static_cast<std::uint64_t>(std::ranges::count_if(arenas_, of_this_kind));
    arena.share_bytes = memory_share(context, key.first, arena.memory.get(), group.control.get()) / arenas;
  }
}

void TransportSet::leave(MemoryKind kind, std::uint64_t bytes) {
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

std::string TransportSet::too_large(const Candidate& candidate, std::uint64_t bytes,
                                    const std::optional<Window>& window) const {
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

Series TransportSet::series(const Candidate& candidate, std::uint64_t bytes, bool verify,
                            const std::optional<Window>& window) const {
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
  series.restarts = candidate.transport && candidate.transport->restarts();
  const std::string once = candidate.transport ? candidate.transport->once_a_batch() : "";
  series.once_a_batch = !once.empty();
  if (tail_ && candidate.transport) series.stamps = candidate.transport->stamps();
  if (series.skipped.empty() && tail_ && series.once_a_batch && series.stamps == nullptr) {
    series.skipped = "--tail cannot time it: every sample would include " + once;
  }
  return series;
}

void TransportSet::open(const std::vector<std::uint64_t>& sizes) {
  for (auto& [key, arena] : arenas_) {
    if (!arena.memory) continue;
    arena.capacity = capacity_for(sizes, arena.share_bytes);
    const std::uint64_t cold = bytes_of_buffers(cold_room_bytes_) <= arena.share_bytes ? cold_room_bytes_ : 0;
    arena.capacity = std::max(arena.capacity, cold);
    arena.messages = std::make_shared<MessageCheck>();
    watchdog_.progress();
    std::string problem = agreed_reason(group_, problem_of([&] {
                                          arena.buffers = arena.memory->reserve(arena.capacity);
                                          // Linux finds a page when it is first written, which takes longer than a
                                          // message: not while one is timed.
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

void TransportSet::close() {
  for (auto& candidate : candidates_) {
    if (candidate.open) candidate.transport->close();
    candidate.open = false;
  }
  VOLLEY_MPI(MPI_Barrier(group_.control.get()));
  for (auto& [key, arena] : arenas_) {
    if (arena.memory) arena.memory->release();
  }
}

void TransportSet::write_records(Records& records) {
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

void TransportSet::open(Candidate& candidate) {
  watchdog_.enter("opening transport " + candidate.entry->name + ", " + group_.name);
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

std::uint64_t TransportSet::host_memory_left(const Candidate& candidate, std::uint64_t bytes,
                                             const std::optional<Window>& window) const {
  std::uint64_t left = host_share_bytes_;
  const auto take = [&](std::uint64_t wanted) { left -= wanted <= left ? wanted : 0; };  // what does not fit is skipped
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

std::uint64_t TransportSet::bytes_on_host(const Candidate& candidate, std::uint64_t bytes,
                                          const std::optional<Window>& window) const {
  if (collectives_) return candidate.transport->collectives()->collective_memory_bytes(bytes);
  return candidate.transport->host_memory_bytes(bytes, window);
}

double time_left_s(const RankGroup& group, const Plan& plan, const Records& records) {
  return mpi::broadcast_value(budget_left_s(plan, records), 0, group.control.get());
}

void SweepBenchmark::read(PlanObject& options, const Plan& plan) {
  options.some_sizes("sizes_bytes", sizes_bytes_, least_bytes());
  if (collective_ || plan.world_size == 2) return;
  options.complain_of_plan(
      "world_size", "`" + plan.benchmark + "` is between exactly 2 ranks, found " + std::to_string(plan.world_size));
}

Exit SweepBenchmark::run(const Run& run) {
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

void read_cold_cache(PlanObject& options, const Plan& plan, bool& cold_caches) {
  options.boolean("cold_cache", cold_caches);
  if (cold_caches && plan.sampling.fixed) options.complain("cold_cache", "fixed sampling has one place for messages");
}

}  // namespace volley
