// Repeats the MPI calls of a recorded application: the same sizes, partners, order, buffers and communicators.
//
// The program is a file of words of 8 bytes that the front end writes from a trace (benchmarks/replay/program.py):
// communicators, then for each rank its buffers' bytes and its steps. Every rank reads it.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "benchmark/benchmark.hpp"
#include "gpu/gpu.hpp"
#include "group/context.hpp"
#include "measure/timing_loop.hpp"
#include "messages/pattern.hpp"
#include "mpi/mpi.hpp"

namespace volley {
namespace {

// In the order of the front end's _CODES.
enum class ReplayCall : std::int64_t {
  send,
  recv,
  isend,
  irecv,
  wait,
  sendrecv,
  barrier,
  bcast,
  reduce,
  allreduce,
  allgather,
  alltoall,
  gather,
  reduce_scatter,
  scatter,
  allgatherv,
  alltoallv
};

// One side of a message, or a buffer of a collective.
struct ReplaySide {
  int peer = 0;  // of a collective the root; negative: MPI_PROC_NULL
  int tag = 0;
  std::int64_t bytes = 0;
  std::int64_t offset = 0;  // of the buffer, in the arena
  std::int64_t seed = 0;    // of the contents when they are verified; 0: they are not
  std::int64_t sent_bytes = 0;
};

struct ReplayStep {
  ReplayCall call = ReplayCall::barrier;
  std::size_t name = 0;
  std::size_t comm = 0;
  std::int64_t gap_ns = 0;  // from the end of the step before
  std::int64_t element = 0;
  std::int64_t slot = -1;  // of the request
  ReplaySide first;
  ReplaySide second;      // the receive of a sendrecv
  std::vector<int> list;  // slots of a wait; bytes to each rank, then from each
};

struct Program {
  std::vector<std::vector<int>> comms;
  std::vector<ReplayStep> steps;
  std::int64_t arena_bytes = 0;
  std::int64_t scratch_bytes = 0;
  std::int64_t slots = 0;
};

class Words {
 public:
  explicit Words(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) throw UsageError("cannot read " + path + ", the calls to replay: all hosts must reach it");
    words_.resize(static_cast<std::size_t>(file.tellg()) / sizeof(std::int64_t));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(words_.data()),
              static_cast<std::streamsize>(words_.size() * sizeof(std::int64_t)));
  }
  [[nodiscard]] std::int64_t next() {
    if (at_ >= words_.size()) throw UsageError("the file of the calls to replay is cut off");
    return words_[at_++];
  }
  template <class Number>
  [[nodiscard]] Number next_as() {
    return static_cast<Number>(next());
  }
  [[nodiscard]] std::vector<int> next_list() {
    std::vector<int> list(next_as<std::size_t>() % (words_.size() + 1));
    for (int& each : list) each = next_as<int>();
    return list;
  }
  void skip(std::int64_t words) { at_ += static_cast<std::size_t>(words); }

 private:
  std::vector<std::int64_t> words_;
  std::size_t at_ = 0;
};

ReplaySide read_side(Words& words) {
  ReplaySide side;
  side.peer = words.next_as<int>();
  side.tag = words.next_as<int>();
  side.bytes = words.next();
  side.offset = words.next();
  side.seed = words.next();
  side.sent_bytes = words.next();
  return side;
}

Program read_program(const std::string& path, int rank) {
  Words words(path);
  Program program;
  program.comms.resize(words.next_as<std::size_t>());
  for (auto& members : program.comms) members = words.next_list();
  for (int other = 0;; ++other) {
    const auto length = words.next();
    if (other == rank) break;
    words.skip(length);
  }
  program.arena_bytes = words.next();
  program.scratch_bytes = words.next();
  program.slots = words.next();
  program.steps.resize(words.next_as<std::size_t>());
  for (ReplayStep& step : program.steps) {
    step.call = words.next_as<ReplayCall>();
    step.name = words.next_as<std::size_t>();
    step.comm = words.next_as<std::size_t>();
    step.gap_ns = words.next();
    step.element = words.next();
    step.slot = words.next();
    step.first = read_side(words);
    if (step.call == ReplayCall::sendrecv) step.second = read_side(words);
    step.list = words.next_list();
  }
  return program;
}

class Player {
 public:
  Player(const Context& context, const Program& program, MemoryKind kind)
      : program_(program),
        memory_(make_memory(kind)),
        scratch_(make_memory(kind)),
        requests_(static_cast<std::size_t>(program.slots)),
        pending_(requests_.size()) {
    arena_ = memory_->reserve(static_cast<std::size_t>(std::max<std::int64_t>(program.arena_bytes, 1))).send;
    both_ = scratch_->reserve(static_cast<std::size_t>(std::max<std::int64_t>(program.scratch_bytes, 1)));
    for (const auto& members : program.comms) comms_.push_back(make_group(context, members));
  }

  // Makes one call; with `verify`, fills what it sends and checks what has arrived.
  void play(const ReplayStep& step, bool verify) {
    if (verify) before(step);
    make(step);
    if (verify) after(step);
  }

  [[nodiscard]] std::uint64_t checked() const { return checked_; }
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }
  void release() {
    memory_->release();
    scratch_->release();
  }

 private:
  [[nodiscard]] std::byte* at(const ReplaySide& side) const { return arena_ + side.offset; }
  static int count(std::int64_t bytes) { return static_cast<int>(bytes); }
  static int peer(const ReplaySide& side) { return side.peer < 0 ? MPI_PROC_NULL : side.peer; }

  void make(const ReplayStep& step) {
    const MPI_Comm comm = step.call == ReplayCall::wait ? MPI_COMM_NULL : comms_[step.comm]->data.get();
    const ReplaySide& a = step.first;
    switch (step.call) {
      case ReplayCall::send: VOLLEY_MPI(MPI_Send(at(a), count(a.bytes), MPI_BYTE, peer(a), a.tag, comm)); break;
      case ReplayCall::recv:
        VOLLEY_MPI(MPI_Recv(at(a), count(a.bytes), MPI_BYTE, peer(a), a.tag, comm, MPI_STATUS_IGNORE));
        break;
      case ReplayCall::isend:
        VOLLEY_MPI(MPI_Isend(at(a), count(a.bytes), MPI_BYTE, peer(a), a.tag, comm, &request(step.slot)));
        break;
      case ReplayCall::irecv:
        VOLLEY_MPI(MPI_Irecv(at(a), count(a.bytes), MPI_BYTE, peer(a), a.tag, comm, &request(step.slot)));
        break;
      case ReplayCall::sendrecv: {
        const ReplaySide& b = step.second;
        VOLLEY_MPI(MPI_Sendrecv(at(a), count(a.bytes), MPI_BYTE, peer(a), a.tag, at(b), count(b.bytes), MPI_BYTE,
                                peer(b), b.tag, comm, MPI_STATUS_IGNORE));
        break;
      }
      case ReplayCall::wait:
        for (const int slot : step.list) std::memcpy(list_.add(), &request(slot), mpi_handle_bytes);
        list_.wait();
        break;
      default: make_collective(step, comm);
    }
  }

  void make_collective(const ReplayStep& step, MPI_Comm comm) {
    const ReplaySide& a = step.first;
    std::byte* const send = both_.send;
    std::byte* const recv = both_.recv;
    const int bytes = count(a.bytes);
    const MPI_Datatype type = step.element == 8 ? MPI_DOUBLE : MPI_FLOAT;
    const int elements = count((a.bytes + (step.element == 8 ? 7 : 3)) / (step.element == 8 ? 8 : 4));
    const int* const counts = step.list.data();
    const auto ranks = comms_[step.comm]->ranks.size();
    switch (step.call) {
      case ReplayCall::barrier: VOLLEY_MPI(MPI_Barrier(comm)); break;
      case ReplayCall::bcast: VOLLEY_MPI(MPI_Bcast(send, bytes, MPI_BYTE, a.peer, comm)); break;
      case ReplayCall::reduce: VOLLEY_MPI(MPI_Reduce(send, recv, elements, type, MPI_SUM, a.peer, comm)); break;
      case ReplayCall::allreduce: VOLLEY_MPI(MPI_Allreduce(send, recv, elements, type, MPI_SUM, comm)); break;
      case ReplayCall::reduce_scatter:
        VOLLEY_MPI(MPI_Reduce_scatter_block(send, recv, elements, type, MPI_SUM, comm));
        break;
      case ReplayCall::allgather: VOLLEY_MPI(MPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm)); break;
      case ReplayCall::alltoall: VOLLEY_MPI(MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm)); break;
      case ReplayCall::gather:
        VOLLEY_MPI(MPI_Gather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, a.peer, comm));
        break;
      case ReplayCall::scatter:
        VOLLEY_MPI(MPI_Scatter(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, a.peer, comm));
        break;
      case ReplayCall::allgatherv:
        starts_.assign(ranks, 0);
        std::exclusive_scan(counts, counts + ranks, starts_.begin(), 0);
        VOLLEY_MPI(MPI_Allgatherv(send, bytes, MPI_BYTE, recv, counts, starts_.data(), MPI_BYTE, comm));
        break;
      case ReplayCall::alltoallv:
        starts_.assign(2 * ranks, 0);
        std::exclusive_scan(counts, counts + ranks, starts_.begin(), 0);
        std::exclusive_scan(counts + ranks, counts + 2 * ranks, starts_.begin() + static_cast<std::ptrdiff_t>(ranks),
                            0);
        VOLLEY_MPI(MPI_Alltoallv(send, counts, starts_.data(), MPI_BYTE, recv, counts + ranks, starts_.data() + ranks,
                                 MPI_BYTE, comm));
        break;
      default: throw UsageError("the file of the calls to replay has an unknown call");
    }
  }

  [[nodiscard]] MPI_Request& request(std::int64_t slot) { return requests_[static_cast<std::size_t>(slot)]; }

  void before(const ReplayStep& step) {
    if (step.call == ReplayCall::send || step.call == ReplayCall::isend || step.call == ReplayCall::sendrecv)
      fill(step.first);
    if (step.call == ReplayCall::irecv) pending_[static_cast<std::size_t>(step.slot)] = &step.first;
  }
  void after(const ReplayStep& step) {
    if (step.call == ReplayCall::recv) check(step.first);
    if (step.call == ReplayCall::sendrecv) check(step.second);
    if (step.call != ReplayCall::wait) return;
    for (const int slot : step.list) {
      if (const ReplaySide* const side = std::exchange(pending_[static_cast<std::size_t>(slot)], nullptr)) check(*side);
    }
  }

  // The contents of messages have no guards: the buffers of an application may be next to each other.
  void expect(const ReplaySide& side) {
    expected_.resize(static_cast<std::size_t>(side.sent_bytes + 7) / 8);
    const PatternWords words = Contents(mixed(static_cast<std::uint64_t>(side.seed))).words();
    for (std::size_t i = 0; i < expected_.size(); ++i) expected_[i] = words.word(i);
  }
  void fill(const ReplaySide& side) {
    if (side.seed == 0) return;
    expect(side);
    memory_->copy(at(side), reinterpret_cast<const std::byte*>(expected_.data()), static_cast<std::size_t>(side.bytes));
  }
  void check(const ReplaySide& side) {
    if (side.seed == 0) return;
    expect(side);
    arrived_.resize(expected_.size());
    const auto bytes = static_cast<std::size_t>(side.sent_bytes);
    memory_->copy(reinterpret_cast<std::byte*>(arrived_.data()), at(side), bytes);
    ++checked_;
    if (std::memcmp(arrived_.data(), expected_.data(), bytes) != 0) ++wrong_;
  }

  const Program& program_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Memory> scratch_;
  std::byte* arena_ = nullptr;
  Buffers both_;
  std::vector<std::optional<RankGroup>> comms_;
  std::vector<MPI_Request> requests_;
  std::vector<const ReplaySide*> pending_;
  RequestList list_;
  std::vector<int> starts_;
  std::vector<std::uint64_t> expected_;
  std::vector<std::uint64_t> arrived_;
  std::uint64_t checked_ = 0;
  std::uint64_t wrong_ = 0;
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
    options.choice("memory", kind_, {{"host", MemoryKind::host}, {"device", MemoryKind::device}});
    options.seconds("time_s", time_s_);
  }

  Exit run(const Run& run) override {
    run.watchdog.enter("replay");
    const Context& context = *run.context;
    const Program program = read_program(program_, run.job.rank);
    Player player(context, program, kind_);
    if (verify_) pass(player, program, run.watchdog, true);
    const MPI_Comm world = context.world.get();
    std::vector<double> pass_s;
    for (double spent_s = 0; mpi::broadcast_value(pass_s.size() < 3 || spent_s < time_s_, 0, world);) {
      VOLLEY_MPI(MPI_Barrier(world));
      const double mine_s = timed([&] { pass(player, program, run.watchdog, false); });
      double longest_s = 0;
      VOLLEY_MPI(MPI_Allreduce(&mine_s, &longest_s, 1, MPI_DOUBLE, MPI_MAX, world));
      pass_s.push_back(longest_s);
      spent_s += longest_s;
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
    for (std::size_t i = 0; i < program.steps.size(); ++i) {
      const ReplayStep& step = program.steps[i];
      if (gaps_ && !verify) {
        const double gap_s = static_cast<double>(step.gap_ns) * 1e-9;
        if (gap_s > 0.1) watchdog.progress(gap_s);
        while (seconds_between(last, Clock::now()) < gap_s) {
        }
      }
      const Span span = timed_span([&](std::uint64_t) { player.play(step, verify); }, 1);
      if (!verify) call_s_.push_back(static_cast<float>(seconds_of(span)));
      last = span.end;
      if (i % 1024 == 0) watchdog.progress();
    }
    watchdog.progress();
  }

  // The median time of a call of each name, of all ranks and passes.
  void write(const Run& run, const Player& player, const Program& program, const std::vector<double>& pass_s,
             MPI_Comm world) const {
    std::vector<std::vector<float>> by_name(names_.size());
    for (std::size_t i = 0; i < call_s_.size(); ++i) {
      by_name.at(program.steps[i % program.steps.size()].name).push_back(call_s_[i]);
    }
    std::string mine;
    for (const auto& times : by_name) {
      const auto number = times.size();
      mine.append(reinterpret_cast<const char*>(&number), sizeof number);
      mine.append(reinterpret_cast<const char*>(times.data()), number * sizeof(float));
    }
    const std::uint64_t counts[2] = {player.checked(), player.wrong()};
    std::uint64_t sums[2] = {0, 0};
    VOLLEY_MPI(MPI_Allreduce(counts, sums, 2, MPI_UINT64_T, MPI_SUM, world));
    const auto all = mpi::gather(mine, world);
    if (run.job.rank != 0) return;
    run.records.write_point({{"record", "replay"},
                             {"version", record_version},
                             {"status", sums[1] == 0 ? "ok" : "failed"},
                             {"pass_s", pass_s},
                             {"call_s", medians(all)},
                             {"checked", sums[0]},
                             {"wrong", sums[1]}});
  }

  [[nodiscard]] std::vector<double> medians(const std::vector<std::string>& all) const {
    std::vector<std::size_t> at(all.size(), 0);
    std::vector<double> found;
    for (std::size_t name = 0; name < names_.size(); ++name) {
      std::vector<float> times;
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        std::size_t number = 0;
        std::memcpy(&number, all[rank].data() + at[rank], sizeof number);
        const std::size_t before = times.size();
        times.resize(before + number);
        std::memcpy(times.data() + before, all[rank].data() + at[rank] + sizeof number, number * sizeof(float));
        at[rank] += sizeof number + number * sizeof(float);
      }
      const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
      std::nth_element(times.begin(), middle, times.end());
      found.push_back(times.empty() ? 0.0 : static_cast<double>(*middle));
    }
    return found;
  }

  std::string program_;
  std::vector<std::string> names_;
  bool gaps_ = false;
  bool verify_ = true;
  MemoryKind kind_ = MemoryKind::host;
  double time_s_ = 1.0;
  std::vector<float> call_s_;
};

}  // namespace

std::unique_ptr<Benchmark> make_replay() { return std::make_unique<Replay>(); }

}  // namespace volley
