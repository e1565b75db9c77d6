// Repeats the MPI calls of a recorded application: the same sizes, partners, order, buffers and communicators.
//
// The program is a file of words of 8 bytes that the front end writes from a trace (benchmarks/replay/program.py):
// communicators, then for each rank its buffers' bytes and its steps. Every rank reads it.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "benchmark/benchmark.hpp"
#include "transport/collectives.hpp"

namespace volley {
namespace {

// In the order of the front end's _CODES, as the collectives that follow.
enum class ReplayCall : std::size_t { send, recv, isend, irecv, wait, sendrecv, first_collective };
constexpr auto first_collective = static_cast<std::size_t>(ReplayCall::first_collective);
constexpr std::array replayed{
    Operation::barrier,   Operation::reduce,     Operation::allreduce,   Operation::allgather,     Operation::gather,
    Operation::scatter,   Operation::allgatherv, Operation::gatherv,     Operation::scatterv,      Operation::scan,
    Operation::broadcast, Operation::all_to_all, Operation::all_to_allv, Operation::reduce_scatter};

// One side of a message, or a buffer of a collective; as in the file.
struct ReplaySide {
  std::int64_t peer;  // of a collective the root; negative: MPI_PROC_NULL
  std::int64_t tag;
  std::int64_t bytes;
  std::int64_t offset;  // of the buffer, in the arena of its memory
  std::int64_t seed;    // of the contents when they are verified; 0: they are not
  std::int64_t sent_bytes;
  std::int64_t on_device;  // 0: in host memory
};

// As in the file, too.
struct ReplayHead {
  ReplayCall call;
  std::size_t name;
  std::size_t comm;
  std::int64_t gap_ns;  // from the end of the step before
  std::int64_t element;
  std::int64_t slot;  // of the request; of a collective that is blocking: negative
  ReplaySide first;
};

struct ReplayStep : ReplayHead {
  ReplaySide second;      // the receive of a sendrecv
  std::vector<int> list;  // slots of a wait; bytes to each rank, then from each
  std::unique_ptr<MpiCall> collective;
};

struct Program {
  std::vector<std::vector<int>> comms;  // the members of each; none if this rank is not one of them
  std::vector<ReplayStep> steps;
  // In host memory, and in GPU memory. Messages have their buffers in the arena, collectives all the same scratch.
  std::array<std::int64_t, 2> arena_bytes{};
  std::array<std::int64_t, 2> scratch_bytes{};
  std::int64_t slots = 0;
};

using Words = std::vector<std::int64_t>;

// Returns the words of this rank. Rank 0 alone reads the file, which begins with the number of words of each rank:
// other hosts need not reach it. Collective.
Words words_of_this_rank(const std::string& path, const Context& context) {
  const auto ranks = static_cast<std::size_t>(context.size);
  Words all;
  std::vector<int> lengths(ranks);
  std::vector<int> starts(ranks);
  if (context.rank == 0) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (file) all.resize(static_cast<std::size_t>(file.tellg()) / sizeof all[0]);
    file.seekg(0);
    file.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(all.size() * sizeof all[0]));
    if (all.size() >= ranks) std::copy_n(all.begin(), ranks, lengths.begin());
    std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), context.size);
    if (all.size() != static_cast<std::size_t>(starts.back() + lengths.back()))
      throw UsageError(path + ", the calls to replay, is missing or cut off");
  }
  const MPI_Comm world = context.world.get();
  int length = 0;
  VOLLEY_MPI(MPI_Scatter(lengths.data(), 1, MPI_INT, &length, 1, MPI_INT, 0, world));
  Words mine(static_cast<std::size_t>(length));
  VOLLEY_MPI(
      MPI_Scatterv(all.data(), lengths.data(), starts.data(), MPI_INT64_T, mine.data(), length, MPI_INT64_T, 0, world));
  return mine;
}

class WordReader {
 public:
  explicit WordReader(Words words) : words_(std::move(words)) {}
  template <class Part>
  void read(Part& part) {
    constexpr std::size_t count = sizeof(Part) / sizeof(std::int64_t);
    if (words_.size() - at_ < count) throw UsageError("the calls to replay are cut off");
    std::memcpy(&part, words_.data() + at_, sizeof part);
    at_ += count;
  }
  template <class Number = std::int64_t>
  [[nodiscard]] Number next() {
    std::int64_t word = 0;
    read(word);
    return static_cast<Number>(word);
  }
  [[nodiscard]] std::vector<int> next_list() {
    std::vector<int> list(next<std::size_t>() % (words_.size() + 1));
    for (int& each : list) each = next<int>();
    return list;
  }

 private:
  const Words words_;
  std::size_t at_ = 0;
};

Program read_program(Words given) {
  WordReader words(std::move(given));
  Program program;
  program.comms.resize(words.next<std::size_t>());
  for (auto& members : program.comms) members = words.next_list();
  words.read(program.arena_bytes);
  words.read(program.scratch_bytes);
  program.slots = words.next();
  program.steps.resize(words.next<std::size_t>());
  for (ReplayStep& step : program.steps) {
    words.read<ReplayHead>(step);
    const bool known = static_cast<std::size_t>(step.call) < first_collective + replayed.size();
    if (!known || step.slot >= program.slots || step.comm >= std::max<std::size_t>(program.comms.size(), 1))
      throw UsageError("the calls to replay have an unknown call");
    if (step.call == ReplayCall::sendrecv) words.read(step.second);
    if (((step.first.on_device | step.second.on_device) & ~std::int64_t{1}) != 0)
      throw UsageError("the calls to replay have a buffer in an unknown memory");
    step.list = words.next_list();
  }
  return program;
}

struct FirstWrong {
  std::size_t name = 0;  // of the call
  Mismatch mismatch;
};

class Player {
 public:
  Player(const Context& context, Program& program)
      : program_(program),
        rank_(context.rank),
        places_{ReplayMemory(MemoryKind::host, program, 0), ReplayMemory(MemoryKind::device, program, 1)},
        requests_(static_cast<std::size_t>(program.slots)),
        pending_(requests_.size()) {
    try {
      for (const auto& members : program.comms)
        comms_.push_back(members.empty() ? Communicator() : make_communicator(context, members));
    } catch (const std::exception& error) {
      throw std::runtime_error("the calls use " + std::to_string(program.comms.size()) +
                               " communicators, and this MPI " + "makes no more than " + std::to_string(comms_.size()) +
                               ": " + error.what());
    }
    for (ReplayStep& step : program.steps) {
      if (step.call >= ReplayCall::first_collective) step.collective = std::make_unique<MpiCall>(prepared(step));
    }
  }

  // Makes one call; with `verify`, fills what it sends and checks what has arrived.
  void play(const ReplayStep& step, bool verify) {
    if (verify) before(step);
    make(step);
    if (verify) after(step);
  }

  // Brings what the replay itself reads of a step into the cache, so that its next call takes as long as MPI's.
  static void fetch(const ReplayStep& step) {
    const auto* const words = reinterpret_cast<const volatile std::uint64_t*>(&step);
    for (std::size_t i = 0; i < sizeof step / sizeof *words; ++i) static_cast<void>(words[i]);
    const volatile int* const list = step.list.data();
    for (std::size_t i = 0; i < step.list.size(); ++i) static_cast<void>(list[i]);
  }

  // Writes to each cache line of a message, as an application does before it sends it: else the receiver's caches still
  // hold the message of the pass before. Only where the gap is long enough for that.
  void renew(const ReplayStep& step, double gap_s) const {
    constexpr double written_bytes_per_s = 2e10;
    constexpr std::int64_t line = 64;
    const ReplaySide& message = step.first;
    if (!sends(step) || message.on_device != 0 || static_cast<double>(message.bytes) > gap_s * written_bytes_per_s)
      return;
    auto* const bytes = reinterpret_cast<volatile unsigned char*>(at(message));
    for (std::int64_t i = 0; i < message.bytes; i += line) bytes[i] = static_cast<unsigned char>(bytes[i] + 1);
  }

  [[nodiscard]] std::uint64_t checked() const { return checked_; }
  // The seeds of all that arrived with a wrong byte, as bytes.
  [[nodiscard]] const std::string& wrong() const { return wrong_; }
  [[nodiscard]] const FirstWrong& first_wrong() const { return first_wrong_; }
  void release() {
    for (const ReplayMemory& place : places_) place.release();
  }

 private:
  // The buffers in one kind of memory, if there are any.
  struct ReplayMemory {
    ReplayMemory(MemoryKind kind, const Program& program, std::size_t number) {
      const auto arena_bytes = static_cast<std::size_t>(program.arena_bytes[number]);
      const auto scratch_bytes = static_cast<std::size_t>(program.scratch_bytes[number]);
      if (arena_bytes > 0) arena = (memory = make_memory(kind))->reserve(arena_bytes).send;
      if (scratch_bytes > 0) both = (scratch = make_memory(kind))->reserve(scratch_bytes);
    }
    void release() const {
      if (memory) memory->release();
      if (scratch) scratch->release();
    }
    std::unique_ptr<Memory> memory;
    std::unique_ptr<Memory> scratch;
    std::byte* arena = nullptr;
    Buffers both;
  };
  [[nodiscard]] const ReplayMemory& place(const ReplaySide& side) const {
    return places_[static_cast<std::size_t>(side.on_device)];
  }
  [[nodiscard]] std::byte* at(const ReplaySide& side) const { return place(side).arena + side.offset; }
  static bool sends(const ReplayStep& step) {
    return step.call == ReplayCall::send || step.call == ReplayCall::isend || step.call == ReplayCall::sendrecv;
  }
  [[nodiscard]] const Buffers& both(const ReplayStep& step) const { return place(step.first).both; }
  static int size(const ReplaySide& side) { return static_cast<int>(side.bytes); }
  static int tag(const ReplaySide& side) { return static_cast<int>(side.tag); }
  static int peer(const ReplaySide& side) { return side.peer < 0 ? MPI_PROC_NULL : static_cast<int>(side.peer); }

  void make(const ReplayStep& step) {
    const ReplaySide& a = step.first;
    const ReplaySide& b = step.second;
    const MPI_Comm with = comm(step);
    switch (step.call) {
      case ReplayCall::send: VOLLEY_MPI(MPI_Send(at(a), size(a), MPI_BYTE, peer(a), tag(a), with)); break;
      case ReplayCall::recv:
        VOLLEY_MPI(MPI_Recv(at(a), size(a), MPI_BYTE, peer(a), tag(a), with, MPI_STATUS_IGNORE));
        break;
      case ReplayCall::isend:
        VOLLEY_MPI(MPI_Isend(at(a), size(a), MPI_BYTE, peer(a), tag(a), with, &request(step.slot)));
        break;
      case ReplayCall::irecv:
        VOLLEY_MPI(MPI_Irecv(at(a), size(a), MPI_BYTE, peer(a), tag(a), with, &request(step.slot)));
        break;
      case ReplayCall::sendrecv:
        VOLLEY_MPI(MPI_Sendrecv(at(a), size(a), MPI_BYTE, peer(a), tag(a), at(b), size(b), MPI_BYTE, peer(b), tag(b),
                                with, MPI_STATUS_IGNORE));
        break;
      case ReplayCall::wait:
        if (step.list.size() == 1) {
          VOLLEY_MPI(MPI_Wait(&request(step.list[0]), MPI_STATUS_IGNORE));
          break;
        }
        for (const int slot : step.list) std::memcpy(list_.add(), &request(slot), mpi_handle_bytes);
        list_.wait();
        break;
      default:
        if (step.slot < 0) blocking_collectives(*step.collective, both(step).send, both(step).recv);
        else nonblocking_collectives(*step.collective, both(step).send, both(step).recv, &request(step.slot));
    }
  }
  [[nodiscard]] MPI_Comm comm(const ReplayStep& step) const { return comms_[step.comm].get(); }

  // The arguments of a collective, which a nonblocking one needs until it has ended.
  [[nodiscard]] MpiCall prepared(const ReplayStep& step) const {
    const int root = static_cast<int>(step.first.peer);
    MpiCall call{.operation = replayed[static_cast<std::size_t>(step.call) - first_collective],
                 .comm = comm(step),
                 .root = root,
                 .is_root = self(step) == root,
                 .count = size(step.first)};
    if (traits_of(call.operation).reduces) {
      const int element = step.element == 8 ? 8 : 4;
      call.type = element == 8 ? MPI_DOUBLE : MPI_FLOAT;
      call.count = (call.count + element - 1) / element;
    }
    if (!step.list.empty()) {  // of MPI_Gatherv and MPI_Scatterv only the root has one
      const auto arriving = step.list.begin() + static_cast<std::ptrdiff_t>(members(step).size());
      set_counts(call.counts, call.starts, {step.list.begin(), arriving});
      set_counts(call.arriving, call.arriving_starts, {arriving, step.list.end()});
    }
    return call;
  }
  [[nodiscard]] const std::vector<int>& members(const ReplayStep& step) const { return program_.comms[step.comm]; }
  // This rank's number in the communicator.
  [[nodiscard]] int self(const ReplayStep& step) const {
    return static_cast<int>(std::ranges::find(members(step), rank_) - members(step).begin());
  }
  static void set_counts(std::vector<int>& counts, std::vector<int>& starts, std::span<const int> given) {
    counts.assign(given.begin(), given.end());
    starts.resize(given.size());
    std::exclusive_scan(given.begin(), given.end(), starts.begin(), 0);
  }

  [[nodiscard]] MPI_Request& request(std::int64_t slot) { return requests_[static_cast<std::size_t>(slot)]; }
  [[nodiscard]] const ReplayStep*& pending(std::int64_t slot) { return pending_[static_cast<std::size_t>(slot)]; }

  void before(const ReplayStep& step) {
    const bool result = step.collective && step.first.seed != 0;
    if (step.slot >= 0 && (step.call == ReplayCall::irecv || result)) pending(step.slot) = &step;
    if (sends(step) && step.first.seed != 0)
      place(step.first).memory->fill(at(step.first), static_cast<std::size_t>(step.first.bytes), words_of(step.first));
    if (!result) return;
    std::vector<std::byte> poison = received_by(step);
    for (std::byte& each : poison) each = ~each;
    const std::vector<std::byte> sent = sent_by(step);
    place(step.first).scratch->copy(both(step).send, sent.data(), sent.size());
    place(step.first).scratch->copy(both(step).recv, poison.data(), poison.size());
  }
  void after(const ReplayStep& step) {
    if (step.call == ReplayCall::recv || (step.collective && step.slot < 0)) check(step, step.first);
    if (step.call == ReplayCall::sendrecv) check(step, step.second);
    if (step.call != ReplayCall::wait) return;
    for (const int slot : step.list) {
      if (const ReplayStep* const begun = std::exchange(pending(slot), nullptr)) check(*begun, begun->first);
    }
  }

  // Compares a message, or the result of a collective. Without guards: the buffers of an application may be next to
  // each other.
  void check(const ReplayStep& step, const ReplaySide& side) {
    if (side.seed == 0) return;
    std::vector<std::byte> right;
    if (step.collective) right = received_by(step);
    else append(right, static_cast<std::size_t>(side.sent_bytes), words_of(side));
    if (right.empty()) return;
    arrived_.resize(right.size());
    Memory& memory = step.collective ? *place(side).scratch : *place(side).memory;
    memory.copy(arrived_.data(), step.collective ? both(step).recv : at(side), right.size());
    ++checked_;
    Mismatch mismatch{.rank = rank_};
    compare_bytes(arrived_.data(), right.data(), right.size(), 0, mismatch);
    if (mismatch.wrong_bytes == 0) return;
    if (wrong_.empty()) first_wrong_ = {step.name, mismatch};
    wrong_.append(reinterpret_cast<const char*>(&side.seed), sizeof side.seed);
  }
  static Contents words_of(const ReplaySide& side) { return Contents(mixed(static_cast<std::uint64_t>(side.seed))); }

  // All that this rank sends in a collective: a block, or one for each rank.
  [[nodiscard]] std::vector<std::byte> sent_by(const ReplayStep& step) const {
    const MpiCall& call = *step.collective;
    const OperationTraits& traits = traits_of(call.operation);
    const DataShare share = call.is_root ? traits.sent_by_root : traits.sent_by_others;
    const bool for_each = share == DataShare::whole && Collective{.operation = call.operation}.in_blocks();
    std::vector<std::byte> made;
    for (int to = 0; share != DataShare::none && to < (for_each ? ranks(step) : 1); ++to)
      append_block(made, step, self(step), to, for_each ? count_of(call.counts, to, call) : call.count, self(step) + 1);
    return made;
  }
  // All that it receives: a block, or one from each rank.
  [[nodiscard]] std::vector<std::byte> received_by(const ReplayStep& step) const {
    const MpiCall& call = *step.collective;
    const OperationTraits& traits = traits_of(call.operation);
    const DataShare share = call.is_root ? traits.received_by_root : traits.received_by_others;
    const bool whole = share == DataShare::whole;
    const bool of_each = share == DataShare::block_for_each;
    const bool from_each = of_each || (whole && Collective{.operation = call.operation}.in_blocks());
    const int last = call.operation == Operation::scan ? self(step) : ranks(step) - 1;  // whose elements are summed
    std::vector<std::byte> made;
    for (int from = 0; share != DataShare::none && from < (from_each ? ranks(step) : 1); ++from)
      append_block(made, step, from_each ? from : call.root, whole ? 0 : self(step),
                   from_each ? count_of(of_each ? call.arriving : call.counts, from, call) : call.count,
                   (last + 1) * (last + 2) / 2);
    return made;
  }
  static int count_of(const std::vector<int>& counts, int rank, const MpiCall& call) {
    return counts.empty() ? call.count : counts[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] int ranks(const ReplayStep& step) const { return static_cast<int>(members(step).size()); }

  // The words of two ranks; or elements of a sum, `times` as large as those of the first rank.
  void append_block(std::vector<std::byte>& made, const ReplayStep& step, int from, int to, int count,
                    int times) const {
    constexpr int period = 61;      // elements of sums repeat after at most so many
    constexpr int exact = 1 << 24;  // and are exact as `float`
    const std::int64_t seed = step.first.seed;
    if (!traits_of(step.collective->operation).reduces) {
      const std::int64_t own = (seed * ranks(step) + from) * ranks(step) + to;
      append(made, static_cast<std::size_t>(count), Contents(mixed(static_cast<std::uint64_t>(own))));
      return;
    }
    const int all = ranks(step) * (ranks(step) + 1) / 2;  // what the ranks' own numbers add up to
    if (all > exact) return;                              // sums of so many ranks are not checked
    for (int i = 0; i < count; ++i) {
      const int number = times * (1 + (i + to + static_cast<int>(seed % period)) % std::min(period, exact / all));
      if (step.element == 8) append(made, static_cast<double>(number));
      else append(made, static_cast<float>(number));
    }
  }

  static void append(std::vector<std::byte>& all, std::size_t bytes, const Contents& contents) {
    const PatternWords words = contents.words();
    for (std::size_t i = 0; i * sizeof(std::uint64_t) < bytes; ++i) append(all, words.word(i));
    all.resize(all.size() - (round_up(bytes, sizeof(std::uint64_t)) - bytes));
  }
  template <class Number>
  static void append(std::vector<std::byte>& all, Number number) {
    const auto bytes = std::bit_cast<std::array<std::byte, sizeof number>>(number);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }

  const Program& program_;
  const int rank_;  // in the world
  const std::array<ReplayMemory, 2> places_;
  std::vector<Communicator> comms_;
  std::vector<MPI_Request> requests_;
  std::vector<const ReplayStep*> pending_;  // by slot: what has begun and brings data
  RequestList list_;
  std::vector<std::byte> arrived_;
  std::uint64_t checked_ = 0;
  std::string wrong_;
  FirstWrong first_wrong_;
};

class Replay final : public Benchmark {
 public:
  void read(PlanObject& options, const Plan& plan) override {
    verify_ = plan.verify;
    options.any_object("recorded");
    std::vector<std::string> program;
    options.names("program", program, "the path of a file");
    if (program.size() == 1) program_ = program.front();
    else options.complain("program", "expected one path");
    options.names("names", names_, "the name of a call");
    options.boolean("gaps", gaps_);
    options.seconds("time_s", time_s_);
  }

  Exit run(const Run& run) override {
    run.watchdog.enter("replay");
    const Context& context = *run.context;
    Program program = read_program(words_of_this_rank(program_, context));
    Player player(context, program);
    if (verify_) pass(player, program, run.watchdog, true);
    const MPI_Comm world = context.world.get();
    std::vector<double> pass_s;
    // Three passes are too much where others use the cores: then one may take a minute.
    const auto another = [&](double spent_s) {
      return pass_s.empty() || spent_s < (pass_s.size() < 3 ? 10 * time_s_ : time_s_);
    };
    const auto begun = Clock::now();
    while (mpi::broadcast_value(another(seconds_since(begun)), 0, world)) {
      VOLLEY_MPI(MPI_Barrier(world));
      const double mine_s = timed([&] { pass(player, program, run.watchdog, false); });
      double longest_s = 0;
      VOLLEY_MPI(MPI_Allreduce(&mine_s, &longest_s, 1, MPI_DOUBLE, MPI_MAX, world));
      pass_s.push_back(longest_s);
    }
    write(run, player, program, pass_s, world);
    player.release();
    return Exit::good;
  }

 private:
  // Makes all calls once. A call's time is its own: a gap ends before it begins.
  void pass(Player& player, const Program& program, Watchdog& watchdog, bool verify) {
    call_s_.reserve(program.steps.size() * 64);
    auto last = Clock::now();
    auto told = last;
    for (const ReplayStep& step : program.steps) {
      if (gaps_ && !verify) {
        const double gap_s = static_cast<double>(step.gap_ns) * 1e-9;
        if (gap_s > 0.1) watchdog.progress(gap_s);
        player.renew(step, gap_s);
        Player::fetch(step);
        while (seconds_between(last, Clock::now()) < gap_s) continue;
      }
      const Span span = timed_span([&](std::uint64_t) { player.play(step, verify); }, 1);
      if (!verify) call_s_.push_back(static_cast<float>(seconds_of(span)));
      last = span.end;
      if (seconds_between(told, last) < 0.1) continue;  // by time: few calls, or gaps, may take long
      watchdog.progress();
      told = last;
    }
    watchdog.progress();
  }

  void write(const Run& run, const Player& player, const Program& program, const std::vector<double>& pass_s,
             MPI_Comm world) const {
    std::vector<std::string> by_name(names_.size());  // seconds of calls, as bytes
    for (std::size_t i = 0; i < call_s_.size(); ++i) {
      std::string& times = by_name.at(program.steps[i % program.steps.size()].name);
      times.append(reinterpret_cast<const char*>(&call_s_[i]), sizeof call_s_[i]);
    }
    std::vector<double> medians_s;
    for (const auto& times : by_name) medians_s.push_back(median_s(mpi::gather(some_of(times, world), world)));
    std::uint64_t checked = player.checked();
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &checked, 1, MPI_UINT64_T, MPI_SUM, world));
    const auto all_wrong = numbers_in<std::int64_t>(mpi::all_gather(player.wrong(), world));
    int first = !player.wrong().empty() ? run.context->rank : run.context->size;  // the first rank with wrong data
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, world));
    const bool failed = first < run.context->size;
    const FirstWrong wrong = mpi::broadcast_value(player.first_wrong(), failed ? first : 0, world);
    Json reason = nullptr;
    if (failed)
      reason = difference("what rank " + std::to_string(first) + " received in MPI_" + names_.at(wrong.name),
                          "must arrive", wrong.mismatch);
    run.records.write_point({{"record", "replay"},
                             {"version", record_version},
                             {"status", failed ? "failed" : "ok"},
                             {"reason", reason},
                             {"mismatch", failed ? to_json(wrong.mismatch) : Json(nullptr)},
                             {"pass_s", pass_s},
                             {"call_s", medians_s},
                             {"checked", checked},
                             {"wrong", all_wrong.size()},
                             {"failed_calls", failed_calls(program, {all_wrong.begin(), all_wrong.end()}, world)}});
  }

  // The names of the calls of any rank that moved something wrong: both sides of a message, a collective, and a wait
  // for one of them. Collective.
  [[nodiscard]] std::vector<std::string> failed_calls(const Program& program, const std::set<std::int64_t>& wrong,
                                                      MPI_Comm world) const {
    const auto is_wrong = [&](const ReplayStep& step) {
      return wrong.contains(step.first.seed) || wrong.contains(step.second.seed);
    };
    std::vector<int> failed(names_.size());
    std::vector<int> slots(static_cast<std::size_t>(program.slots));  // of requests: whether what they began was wrong
    for (const ReplayStep& step : program.steps) {
      int& its = failed.at(step.name);
      if (step.slot >= 0) slots[static_cast<std::size_t>(step.slot)] = is_wrong(step) ? 1 : 0;
      if (is_wrong(step)) its = 1;
      if (step.call != ReplayCall::wait) continue;
      for (const int slot : step.list) its = std::max(its, slots[static_cast<std::size_t>(slot)]);
    }
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, failed.data(), static_cast<int>(failed.size()), MPI_INT, MPI_MAX, world));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < failed.size(); ++i) {
      if (failed[i] != 0) names.push_back(names_[i]);
    }
    return names;
  }

  template <class Number>
  [[nodiscard]] static std::vector<Number> numbers_in(const std::vector<std::string>& of_ranks) {
    const std::string all = joined(of_ranks, "");
    std::vector<Number> numbers(all.size() / sizeof(Number));
    if (!numbers.empty()) std::memcpy(numbers.data(), all.data(), all.size());
    return numbers;
  }

  // This rank's times of a call; a random part of them where all ranks together have so many that an int cannot count
  // their bytes: some hundred ranks that make a million calls a second. Collective.
  [[nodiscard]] static std::string some_of(const std::string& times, MPI_Comm world) {
    constexpr std::uint64_t most_bytes = std::uint64_t{1} << 28;
    std::uint64_t all_bytes = times.size();
    VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &all_bytes, 1, MPI_UINT64_T, MPI_SUM, world));
    const std::uint64_t every = 1 + all_bytes / most_bytes;
    std::string kept;
    for (std::size_t i = 0; i < times.size(); i += sizeof(float)) {
      if (mixed(i) % every == 0) kept.append(times, i, sizeof(float));
    }
    return kept;
  }

  // The median of all ranks' times; 0 if there are none.
  [[nodiscard]] static double median_s(const std::vector<std::string>& of_ranks) {
    auto times = numbers_in<float>(of_ranks);
    if (times.empty()) return 0;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }

  std::string program_;
  std::vector<std::string> names_;
  bool gaps_ = false;
  bool verify_ = true;
  double time_s_ = 1.0;
  std::vector<float> call_s_;
};

}  // namespace

std::unique_ptr<Benchmark> make_replay() { return std::make_unique<Replay>(); }

}  // namespace volley
