// At 1, 2 and 4 ranks: what ranks contribute tells them apart, and every way to break a collective is found.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include "benchmark/operations.hpp"
#include "expect.hpp"
#include "faults/faults.hpp"
#include "group/group_control.hpp"
#include "measure/sampler.hpp"
#include "mpi/mpi.hpp"
#include "start_mpi.hpp"
#include "transport/collectives.hpp"
#include "transport/registry.hpp"

using namespace volley;

namespace {

constexpr std::uint64_t seed = 12345;

// What is reduced and how; the first two are sums to which all contribute, of the others each word is one rank's.
struct Kind {
  Element element;
  Reduction reduction = Reduction::sum;
};
constexpr std::array<Kind, 7> kinds{{{Element::float32},
                                     {Element::int32},
                                     {Element::float32, Reduction::max},
                                     {Element::int32, Reduction::max},
                                     {Element::float16},
                                     {Element::bfloat16},
                                     {Element::float8_e4m3}}};

// All but the barrier, as rank `self` takes part in them: with blocks of one length, and of three where that can be.
std::vector<Collective> every_collective(Kind kind, int ranks, int self) {
  std::vector<Collective> all;
  for (int number = 1; number < operations; ++number) {
    const Collective made{.operation = static_cast<Operation>(number),
                          .element = kind.element,
                          .ranks = ranks,
                          .self = self,
                          .reduction = kind.reduction};
    if (made.among_neighbors() && ranks < 3) continue;
    Collective& each = all.emplace_back(made);
    each.root = number % ranks;
    if (!each.traits().own_counts) continue;
    for (const std::array<std::uint64_t, 2> imbalance : {std::array<std::uint64_t, 2>{1, 4}, {3, 1}}) {
      Collective uneven = all.back();
      uneven.imbalance = imbalance;
      all.push_back(uneven);
    }
  }
  return all;
}

// All contributions to a position differ, none is 0, and sums differ by position and are exact.
void contributions_differ() {
  for (const auto element : {Element::float32, Element::int32}) {
    for (const int ranks : {2, 3, 64, 1000, max_ranks(element)}) {
      const Collective collective{Operation::allreduce, element, ranks, 0};
      const auto of = contributed(collective, 4096, seed).of;
      EXPECT(of.bits >= Contributions::min_bits);
      std::set<std::uint64_t> sums;
      std::vector<std::uint32_t> numbers(static_cast<std::size_t>(ranks));
      for (std::uint64_t position = 0; position < 300; ++position) {
        for (int rank = 0; rank < ranks; ++rank) numbers[static_cast<std::size_t>(rank)] = of.number(rank, position);
        const auto sum = std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
        std::ranges::sort(numbers);
        EXPECT(std::ranges::adjacent_find(numbers) == numbers.end() && numbers.front() > 0);
        EXPECT(numbers.back() - numbers.front() < numbers.front());
        EXPECT(sum == of.number(Contributions::sum, position));
        EXPECT(sum < (element == Element::float32 ? 1U << 24 : 1U << 31));
        sums.insert(sum);
      }
      EXPECT(sums.size() == 300);
      for (std::uint64_t apart = 1; apart < std::uint64_t{1} << 36; apart *= 2) {
        EXPECT(of.varying(7) != of.varying(7 + apart));
      }
    }
  }
  EXPECT(max_ranks(Element::float32) > 2000 && max_ranks(Element::int32) > max_ranks(Element::float32));
}

// The words of one rank in each place add up to what is expected, whatever is summed first; each rank has some, and the
// numbers are not so small that arithmetic could take them for 0, nor so large that a sum is no number.
void packed_contributions_add_up() {
  for (const Kind& kind : std::span(kinds).subspan(2)) {
    for (const int ranks : {2, 3, 4, 33, 64, 100000}) {
      const Collective collective{
          .operation = Operation::allreduce, .element = kind.element, .ranks = ranks, .reduction = kind.reduction};
      const auto of = contributed(collective, 4096, seed).of;
      std::set<int> contributors;
      for (std::uint64_t position = 0; position < 300; ++position) {
        std::uint32_t all = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const std::uint32_t mine = of.element(rank, position);
          EXPECT(mine == 0 || (all == 0 && of.contributor(position) == rank));
          all |= mine;
        }
        EXPECT(all == of.element(Contributions::sum, position));
        EXPECT(of.element(Contributions::sum_of_first(1), position) == of.element(0, position));
        for (std::uint32_t shift = 0; shift < 32; shift += of.packed_bits)
          EXPECT((all >> shift & ((std::uint64_t{1} << of.packed_bits) - 1)) >> (of.packed_bits - 3) == 1);
        contributors.insert(of.contributor(position));
        EXPECT(of.contributor(position) != of.contributor(position + message_step_bytes / element_bytes));
      }
      EXPECT(contributors.size() == std::min<std::size_t>(300, static_cast<std::size_t>(ranks)));
    }
  }
}

// One result of each operation: right as it should be, wrong with any bit flipped, any element missing, or shifted.
void every_wrong_element_is_found() {
  const auto memory = make_host_memory();
  const Buffers buffers = memory->reserve(120);
  for (const Kind& kind : kinds) {
    for (const int self : {0, 1, 2}) {
      for (const Collective& collective : every_collective(kind, 3, self)) {
        const std::uint64_t bytes = collective.whole(120);
        const std::uint64_t received = collective.received_bytes(bytes);
        if (received == 0) continue;
        const auto right = [&](CollectiveVerifier& verifier) {
          verifier.poison(buffers.recv, bytes, seed);
          memory->write(buffers.recv, received, expected(collective, bytes, seed));
        };
        const auto found = [&](auto breaks) {
          CollectiveVerifier verifier(collective, bytes, *memory);
          right(verifier);
          breaks(buffers.recv);
          return verifier.check(buffers.recv, bytes, seed).has_value();
        };
        EXPECT(!found([](std::byte*) {}));
        for (std::uint64_t bit = 0; bit < 8 * received; ++bit) {
          EXPECT(found([&](std::byte* at) { at[bit / 8] ^= std::byte{1} << (bit % 8); }));
        }
        EXPECT(found([&](std::byte* at) { at[-1] ^= std::byte{1}; }));
        EXPECT(found([&](std::byte* at) { at[received] ^= std::byte{1}; }));
        EXPECT(found([&](std::byte* at) { std::memmove(at, at + element_bytes, received - element_bytes); }));
        for (std::uint64_t one = 0; one < received; one += element_bytes) {
          for (std::uint64_t other = one + element_bytes; other < received; other += element_bytes) {
            const auto equal = [&](const Elements& of) {
              return of.at(one / element_bytes) == of.at(other / element_bytes);
            };
            if (equal(expected(collective, bytes, seed))) continue;  // of a scan: nothing of later ranks
            EXPECT(found([&](std::byte* at) { std::swap_ranges(at + one, at + one + element_bytes, at + other); }));
          }
        }
        CollectiveVerifier verifier(collective, bytes, *memory);
        verifier.poison(buffers.recv, bytes, seed);
        const auto never = verifier.check(buffers.recv, bytes, seed);
        EXPECT(never && never->wrong_bytes == received && never->offset_bytes == 0);
      }
    }
  }
}

// Copies the message, as an operation of one rank does; a chosen copy has a byte too many, and some are the last.
class Copying final : public Driver {
 public:
  Copying(int overrun, int last) : overrun_(overrun), last_(last) {}
  void run(const View& view, std::uint64_t count, const std::optional<Window>&) override {
    for (; count > 0; --count) {
      const View from = count > 1 ? view : view.last();
      if (++copies_ > last_) continue;
      std::memcpy(from.recv, from.send, from.bytes + (copies_ == overrun_ ? 1 : 0));
    }
  }

 private:
  int overrun_;
  int last_;
  int copies_ = 0;
};

// One series of a driver on all of these buffers, by this rank alone.
Series measured(Driver& driver, Verifier& verifier, const Buffers& buffers, std::size_t bytes, const Workload& workload,
                const Sampling& sampling, bool restarts = false) {
  std::vector<Series> all(1);
  all[0].driver = &driver;
  all[0].verifier = &verifier;
  all[0].view = {buffers.send, buffers.recv, bytes};
  all[0].buffer_bytes = buffers.capacity;
  all[0].restarts = restarts;
  LocalControl control(0, 0);
  Watchdog watchdog("test", 60);
  Sampler(control, sampling, workload, watchdog).measure(all);
  return all[0];
}

// Nobody writes poison between two samples of a long exchange: the guards of the first message must be right for all,
// for the verifier of messages and for that of collectives. And the message before must not pass for the next one. Copy
// 22 is the second sample of the fourth visit: ten calibrate, and each visit has an untimed one before its two samples.
void messages_in_place_of_poison_are_verified() {
  const Workload workload{.name = "copies",
                          .messages = {1, 0},
                          .divisor = 1,
                          .max_counts = 1,
                          .limits = {.long_exchange_s = 0}};  // every exchange is a long one
  constexpr int never = 1 << 30;
  constexpr std::uint64_t bytes = 96;
  const Collective alone{Operation::allreduce, Element::float32, 1, 0};
  for (const bool collective : {false, true}) {
    for (const auto& [overrun, last, wrong_at] : {std::tuple{never, never, -1}, {22, never, 96}, {never, 21, 0}}) {
      const auto memory = make_host_memory();
      CollectiveVerifier verifier(alone, bytes, *memory);
      const Buffers buffers = memory->reserve(bytes);
      Copying driver(overrun, last);
      Sampling sampling;
      sampling.min_visits = 10;
      Verifier& verifies = collective ? static_cast<Verifier&>(verifier) : *memory;
      const Series series = measured(driver, verifies, buffers, bytes, workload, sampling);
      EXPECT(series.first_samples.size() >= 8);
      const std::int64_t found = series.mismatch ? series.mismatch->offset_bytes : -1;
      const bool in_a_sum = collective && found > 0;  // two sums may agree in a byte, but not in an element
      EXPECT((in_a_sum ? found - found % static_cast<std::int64_t>(element_bytes) : found) == wrong_at);
    }
  }
}

// As persistent requests that are right, or that send what was there when they were made.
class Requests final : public Driver {
 public:
  explicit Requests(bool late) : late_(late) {}
  void arm(const View& view, std::uint64_t count, const std::optional<Window>&) override {
    for (std::uint64_t i = 0; i < count; ++i) {
      const View here = (i + 1 < count ? view : view.last()).message(i);
      requests_.push_back({here, std::vector(here.send, here.send + here.bytes)});
    }
  }
  void run(const View&, std::uint64_t, const std::optional<Window>&) override {
    for (const auto& [here, made] : requests_) std::memcpy(here.recv, late_ ? here.send : made.data(), here.bytes);
  }
  void disarm() override { requests_.clear(); }

 private:
  bool late_;
  std::vector<std::pair<View, std::vector<std::byte>>> requests_;
};

void requests_that_keep_a_message_are_found() {
  const Workload workload{.name = "requests", .messages = {1, 0}, .divisor = 1, .pass_counts = 4};
  constexpr std::uint64_t bytes = 96;
  for (const bool late : {true, false}) {
    const auto memory = make_host_memory();
    const Buffers buffers = memory->reserve(1 << 20);
    Requests driver(late);
    Sampling sampling;
    sampling.point_time_s = 0.01;
    const Series series = measured(driver, *memory, buffers, bytes, workload, sampling, true);
    EXPECT(series.pass.counts > 0);
    EXPECT(series.mismatch.has_value() != late);
  }
}

// The pass after the samples by hand: operations with a place each; true where a rank finds one of them wrong.
bool wrong(Fault fault, const Context& context, const RankGroup& group, Collective collective,
           std::string_view transport) {
  collective.comm = collective.among_neighbors() ? group.ring.get() : group.data.get();
  constexpr std::uint64_t count = 4;
  const auto made = find_transport(transport)->make();
  const auto memory = make_host_memory();
  const std::uint64_t bytes = collective.whole(1000);
  const Buffers buffers = memory->reserve(count * pass_stride(bytes));
  const View view{buffers.send, buffers.recv, bytes, 0, pass_stride(bytes)};
  CollectiveVerifier verifier(collective, bytes, *memory);
  made->open(group, buffers);
  const auto driver = made->collectives()->driver(collective);
  driver->prepare(view, {});
  FaultyDriver faulty(*driver, fault, memory.get(), {},
                      [&](std::size_t whole) { return collective.received_bytes(whole); });
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!collective.sends_in_place()) verifier.fill(view.message(i).send, bytes, seed + 2 * i);
    verifier.poison(view.message(i).recv, bytes, seed + 2 * i);
  }
  GroupControl control(context, group);
  control.ready();
  faulty.arm(view, count, {});
  faulty.run(view, count, {});
  faulty.disarm();
  bool mine = false;
  for (std::uint64_t i = 0; i < count; ++i)
    mine |= verifier.check(view.message(i).recv, bytes, seed + 2 * i).has_value();
  made->close();
  return control.first_of(mine) >= 0;
}

void broken_collectives_are_found(const Context& context, const RankGroup& group) {
  for (const Kind& kind : kinds) {
    std::vector<Collective> all = every_collective(kind, group.size(), group.self);
    const std::size_t apart = all.size();
    for (std::size_t i = 0; i < apart; ++i) {
      if (!all[i].has_place()) continue;
      all.push_back(all[i]);
      all.back().in_place = true;
    }
    for (const Collective& collective : all) {
      if (traits_of(kind.element).bits < 32 && collective.reduces()) continue;  // MPI has no such type
      for (const std::string_view transport : {"host", "host/nonblocking", "host/persistent"}) {
        if (transport == "host/persistent" && MPI_Barrier_init == nullptr) continue;  // before MPI 4.0
        if (!find_transport(transport)->make()->unavailable(context, group).empty()) continue;
        const auto broken = [&](Fault fault) { return wrong(fault, context, group, collective, transport); };
        EXPECT(!broken(Fault::none));
        for (const Fault fault : {Fault::flip, Fault::early, Fault::late, Fault::lose, Fault::swap, Fault::echo}) {
          const bool found = broken(fault);
          EXPECT(found);
          if (found) continue;
          std::fprintf(stderr, "fault %d passes as %s on %s%s\n", static_cast<int>(fault),
                       name_of(collective.operation), transport.data(), collective.in_place ? " in place" : "");
        }
      }
    }
  }
}

// What is missing, or there twice, is said.
void wrong_results_are_explained() {
  const auto memory = make_host_memory();
  constexpr std::uint64_t bytes = 96;
  const Buffers buffers = memory->reserve(bytes);
  for (const auto element : {Element::float32, Element::int32}) {
    for (const auto operation : {Operation::allreduce, Operation::reduce_scatter}) {
      const Collective collective{operation, element, 3, 1};
      const Elements right = expected(collective, bytes, seed);
      const auto explained = [&](std::int64_t times, int rank) {
        CollectiveVerifier verifier(collective, bytes, *memory);
        verifier.poison(buffers.recv, bytes, seed);
        memory->write(buffers.recv, collective.received_bytes(bytes), right);
        const auto sum = std::int64_t{right.of.number(Contributions::sum, right.position)};
        const std::int64_t number = sum + times * right.of.number(rank, right.position);
        const auto real = static_cast<float>(number);
        const auto whole = static_cast<std::int32_t>(number);
        std::memcpy(buffers.recv, element == Element::float32 ? static_cast<const void*>(&real) : &whole,
                    element_bytes);
        EXPECT(verifier.check(buffers.recv, bytes, seed).has_value());
        return verifier.diagnosis();
      };
      EXPECT(explained(-1, 2) == "it lacks what rank 2 contributed");
      EXPECT(explained(1, 0) == "it counts what rank 0 contributed twice");
    }
  }
  const Collective half{.operation = Operation::allreduce, .element = Element::float16, .ranks = 3};
  const Elements right = expected(half, bytes, seed);
  for (std::uint64_t word = 0; word < 3; ++word) {
    CollectiveVerifier lacking(half, bytes, *memory);
    lacking.poison(buffers.recv, bytes, seed);
    memory->write(buffers.recv, bytes, right);
    std::memset(buffers.recv + word * element_bytes, 0, element_bytes);
    EXPECT(lacking.check(buffers.recv, bytes, seed).has_value());
    EXPECT(lacking.diagnosis() ==
           "it lacks what rank " + std::to_string(right.of.contributor(right.position + word)) + " contributed");
  }
  const Collective broadcast{Operation::broadcast, Element::float32, 3, 2};
  CollectiveVerifier verifier(broadcast, bytes, *memory);
  verifier.poison(buffers.recv, bytes, seed);
  EXPECT(verifier.check(buffers.recv, bytes, seed).has_value() &&
         verifier.diagnosis() == "what rank 0 sent never arrived");
}

// The time of all is from the last entry to the last exit.
void ranks_agree_on_time(const Context& context, const RankGroup& group) {
  GroupControl control(context, group);
  const auto now = mpi::broadcast_value(Clock::now(), 0, context.world.get());
  const auto self = std::chrono::milliseconds(group.self);
  const auto last = std::chrono::milliseconds(group.size() - 1);
  const Elapsed all = control.elapsed({now + self, now + last + 2 * self});
  EXPECT(std::abs(all.seconds - 2e-3 * (group.size() - 1)) < 1e-8 || group.size() == 1);
  EXPECT(all.entry_skew_s && std::abs(*all.entry_skew_s - 1e-3 * (group.size() - 1)) < 1e-8);
  EXPECT(control.take_clock_error_s() == 0);
  EXPECT(control.first_of(false) == -1 && control.first_of(group.self == group.size() - 1) == group.size() - 1);
}

// The same ranks, called two nodes: the clocks that are compared are one clock, so the truth is known.
void clocks_of_nodes_are_compared(Context& context, const RankGroup& group) {
  for (int& node : context.node_of) node = static_cast<int>(&node - context.node_of.data()) % 2;
  GroupControl control(context, group);
  const auto now = mpi::broadcast_value(Clock::now(), 0, context.world.get());
  const auto self = std::chrono::milliseconds(group.self);
  const Elapsed all = control.elapsed({now + self, now + 3 * self});
  const double error_s = control.take_clock_error_s();
  const int last = group.size() - 1;
  EXPECT(error_s > 0 && error_s < 1);
  EXPECT(std::abs(all.seconds - 2e-3 * last) <= 2 * error_s + 1e-8);
  EXPECT(std::abs(*all.entry_skew_s - 1e-3 * last) <= 2 * error_s + 1e-8);
  std::ranges::fill(context.node_of, 0);
}

}  // namespace

int main() {
  start_mpi();
  {
    Context context = make_context(Options{}, place(Options{}));
    if (context.size == 1) contributions_differ();
    if (context.size == 1) packed_contributions_add_up();
    if (context.size == 1) every_wrong_element_is_found();
    if (context.size == 1) wrong_results_are_explained();
    if (context.size == 1) messages_in_place_of_poison_are_verified();
    if (context.size == 1) requests_that_keep_a_message_are_found();
    RankGroup group = everyone(context);
    group.make_ring();
    ranks_agree_on_time(context, group);
    if (context.size > 1) clocks_of_nodes_are_compared(context, group);
    if (context.size > 1) broken_collectives_are_found(context, group);
  }
  MPI_Finalize();
  return test::finish();
}
