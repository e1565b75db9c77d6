// A rank's part of a problem on its device.
//
// Two streams. On the one, interior follows interior. On the other, whose blocks go first, come the edges, which need
// the halos and are the next ones, and then the exchange:
//
//   interior   | interior k      | interior k + 1  | ...          interior k + 1 comes behind interior k and edges k,
//   edges        edges k, halos k  edges k + 1, halos k + 1        edges k + 1 behind interior k and halos k.
//
// So the exchange has the time of a whole sweep. Without overlap interior k waits for halos k.
//
// The residual of an iteration is told by the first block of the next one, while the host waits for nothing; the host
// reads it before it enqueues the one after that. Where the end is found, one iteration too many is under way: it
// writes the plane of two iterations ago, and what the last one gave is untouched.
#include <algorithm>
#include <atomic>
#include <deque>

#include "gpu/buffers.cuh"
#include "jacobi/device/edges.cuh"
#include "jacobi/device/field.cuh"
#include "jacobi/device/stopwatch.cuh"
#include "jacobi/worker.hpp"
#include "measure/timing_loop.hpp"

namespace volley::jacobi {

namespace device {

namespace {

// Iterations from one whose parts are timed to the next.
constexpr std::uint64_t timed_every = 16;
// Looking at the device and at libraries costs more than looking at a word.
constexpr unsigned looks_between_checks = 4096;

template <class Real>
class DeviceWorker final : public Worker {
 public:
  DeviceWorker(const Context& context, const JacobiOptions& plan, const Grid& grid, Halos& halos)
      : plan_(plan),
        grid_(grid),
        halos_(halos),
        field_(grid),
        world_(Communicator::duplicate(context.world.get())),
        residuals_(plan),
        tallies_(2 * sizeof(ResidualMax)),
        report_(sizeof(Report)) {
    VOLLEY_CUDA_CHECK(cudaMemset(tallies_.data(), 0, 2 * sizeof(ResidualMax)));
    VOLLEY_CUDA_CHECK(cudaDeviceSynchronize());
    *report() = {0, 0};
  }

  int threads() const override { return 0; }
  std::vector<Stores> kinds_of_stores() const override { return {}; }
  void use(Stores) override {}

  void copy(std::uint64_t times) override {
    for (std::uint64_t i = 0; i < times; ++i) field_.copy(done_, main_);
    main_.synchronize();
  }

  std::uint64_t advance(std::uint64_t most) override {
    const std::uint64_t before = done_;
    const std::uint64_t last = std::min(plan_.iterations, before + most);
    if (launched_ == 0) first_halos();
    while (launched_ < last) {
      // At most the one before is still unread when the next is enqueued.
      if (launched_ >= 2) read_residues(launched_ - 2);
      if (over()) break;
      step();
    }
    drain();
    add_parts(launched_ - before);
    return done_ - before;
  }

  std::uint64_t iterations() const override { return done_; }
  const Residuals& residuals() const override { return residuals_; }
  const Parts& parts() const override { return parts_; }
  std::uint64_t hash() override { return field_.hash(grid_, done_); }
  double error() override { return field_.error(grid_, done_); }
  std::optional<std::array<std::int64_t, 2>> first_broken() override { return field_.first_broken(grid_, done_); }

 private:
  [[nodiscard]] bool over() const { return residuals_.converged() || residuals_.broken(); }
  [[nodiscard]] bool alone() const { return halos_.neighbours() == 0; }
  [[nodiscard]] ResidualMax* tally(std::uint64_t iteration) const {
    return reinterpret_cast<ResidualMax*>(tallies_.data()) + iteration % 2;
  }
  [[nodiscard]] Report* report() const { return reinterpret_cast<Report*>(report_.data()); }
  // Whether somebody has to be told the residual of this iteration: it is due, and its number is still awaited.
  [[nodiscard]] bool awaited(std::uint64_t iteration) const {
    return std::find(awaited_.begin(), awaited_.end(), iteration) != awaited_.end();
  }

  // The halos of the field as it begins: the messages are packed for once.
  void first_halos() {
    if (alone()) return;
    for (int place = 0; place < 2; ++place) {
      halos_.turn();
      pack<<<64, edge_threads, 0, side_.get()>>>(edges(0, {}, halos_.messages()));
      VOLLEY_CUDA_CHECK(cudaGetLastError());
    }
    exchange(false);
  }

  void step() {
    const std::uint64_t k = launched_;
    const bool timed = timed_ == 0 || k % timed_every == 0;  // one in each batch at least
    timed_ += timed ? 1 : 0;
    if (!alone()) {
      const auto came = halos_.messages();
      halos_.turn();
      swept_.hold(side_);
      around(timed, edges_watch_, side_, [&] { launch_edges(edges(k, came, halos_.messages())); });
      const gpu::Event& before = edged_[(k + 1) % 2];
      edged_[k % 2].record(side_);
      if (plan_.overlap) {
        before.hold(main_);
        launch_interior(k, timed);
        exchange(timed);
      } else {
        exchange(timed);
        arrived_.record(side_);
        arrived_.hold(main_);
        launch_interior(k, timed);
      }
    } else {
      launch_interior(k, timed);
    }
    ++launched_;
  }

  template <class Enqueue>
  void around(bool timed, Stopwatch& watch, const gpu::Stream& cuda_stream, Enqueue&& enqueue) {
    if (timed) watch.begin(cuda_stream);
    enqueue();
    if (timed) watch.end(cuda_stream);
  }

  void launch_interior(std::uint64_t k, bool timed) {
    constexpr std::int64_t tile_rows = sweep_rows * sweep_warps;
    const Region region = grid_.interior();
    const std::int64_t across = field_.before(k).stride * static_cast<std::int64_t>(sizeof(Real)) / pitch_bytes;
    const std::int64_t along = (region.y1 - region.y0 + tile_rows - 1) / tile_rows;
    const bool looks = residuals_.due(k);
    const bool tells = k > 0 && awaited(k - 1);
    const Interior<Real> job{
        field_.before(k),           field_.before(k + 1),           region,   across, across * along, k % 2 == 1,
        looks ? tally(k) : nullptr, tells ? tally(k - 1) : nullptr, report(), k};
    const auto kernel = looks ? sweep_interior<Real, true> : sweep_interior<Real, false>;
    around(timed, interior_watch_, main_, [&] {
      kernel<<<static_cast<unsigned>(job.tiles), sweep_warps * warp_threads, 0, main_.get()>>>(job);
      VOLLEY_CUDA_CHECK(cudaGetLastError());
    });
    swept_.record(main_);
    if (looks) awaited_.push_back(k);
  }

  [[nodiscard]] Edges<Real> edges(std::uint64_t k, const std::array<View, 4>& came,
                                  const std::array<View, 4>& next) const {
    Edges<Real> job{};
    job.from = field_.before(k);
    job.to = field_.before(k + 1);
    job.columns = grid_.columns();
    job.rows = grid_.rows();
    const auto regions = grid_.edges();
    for (std::size_t i = 0; i < regions.size(); ++i) {
      job.regions[i] = regions[i];
      job.first[i + 1] = job.first[i] + regions[i].points();
      job.shores[i] = {reinterpret_cast<const Real*>(came[i].recv), reinterpret_cast<Real*>(next[i].send)};
    }
    job.tally = residuals_.due(k) ? tally(k) : nullptr;
    return job;
  }

  void launch_edges(const Edges<Real>& job) {
    const auto blocks = static_cast<unsigned>((job.first[4] + edge_threads - 1) / edge_threads);
    sweep_edges<<<blocks, edge_threads, 0, side_.get()>>>(job);
    VOLLEY_CUDA_CHECK(cudaGetLastError());
  }

  // Behind the edges. What a link enqueues counts as packing where it copies to and from messages in host memory, and
  // as exchange where it is the transfer.
  void exchange(bool timed) {
    Stopwatch& enqueued = halos_.bounces() ? pack_watch_ : exchange_watch_;
    if (!halos_.host_driven()) {
      return around(timed, enqueued, side_, [&] {
        halos_.leave(side_.get());
        halos_.arrive(side_.get());
      });
    }
    around(timed, enqueued, side_, [&] { halos_.leave(side_.get()); });
    left_.record(side_);
    until([&] { return left_.happened(); });
    parts_.exchange_s += volley::timed(
        [&](std::uint64_t) {
          halos_.start();
          halos_.finish();
        },
        1);
    around(timed && halos_.bounces(), enqueued, side_, [&] { halos_.arrive(side_.get()); });
  }

  // Polls. A device that failed and a halo that does not come end it by an exception, a hang elsewhere is the
  // watchdog's.
  template <class Ready>
  void until(Ready&& ready) {
    for (unsigned looks = 1; !ready(); ++looks) {
      if (looks % looks_between_checks != 0) continue;
      (void)main_.busy();
      halos_.progress();
    }
  }

  // Reads and reduces all residuals up to that of `iteration`, which the device has told or will tell.
  void read_residues(std::uint64_t iteration) {
    while (!awaited_.empty() && awaited_.front() <= iteration && !over()) {
      const std::uint64_t next = awaited_.front();
      const std::atomic_ref number(report()->number);
      until([&] { return number.load(std::memory_order_acquire) == next + 1; });
      std::uint64_t bits = report()->bits;
      parts_.reduction_s += volley::timed(
          [&](std::uint64_t) {
            VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &bits, 1, MPI_UINT64_T, MPI_MAX, world_.get()));
          },
          1);
      residuals_.take(next, bits);
      awaited_.pop_front();
      if (over()) done_ = next + 1;
    }
  }

  // The end of a batch: everything is complete, and all residuals are read.
  void drain() {
    if (launched_ > 0) {
      if (launched_ >= 2) read_residues(launched_ - 2);
      const std::uint64_t k = launched_ - 1;
      if (!over() && awaited(k)) {
        edged_[k % 2].hold(main_);
        publish_alone<<<1, 1, 0, main_.get()>>>(tally(k), report(), k + 1);
        VOLLEY_CUDA_CHECK(cudaGetLastError());
        read_residues(k);
      }
    }
    until([&] { return !main_.busy() && !side_.busy(); });
    halos_.progress();
    if (!over()) done_ = launched_;
  }

  // Parts that the device timed in some iterations stand for all of them.
  void add_parts(std::uint64_t iterations) {
    if (timed_ == 0) return;
    const double scale = static_cast<double>(iterations) / static_cast<double>(timed_);
    parts_.interior_s += scale * interior_watch_.read_s();
    parts_.edges_s += scale * edges_watch_.read_s();
    parts_.pack_s += scale * pack_watch_.read_s();
    parts_.exchange_s += scale * exchange_watch_.read_s();
    timed_ = 0;
  }

  const JacobiOptions& plan_;
  const Grid& grid_;
  Halos& halos_;
  DeviceField<Real> field_;
  Communicator world_;  // for the residual alone
  Residuals residuals_;
  Parts parts_;
  gpu::Stream main_ = gpu::Stream::make();
  gpu::Stream side_ = gpu::Stream::urgent();
  gpu::Event swept_ = gpu::Event::make();
  std::array<gpu::Event, 2> edged_{gpu::Event::make(), gpu::Event::make()};
  gpu::Event left_ = gpu::Event::make();
  gpu::Event arrived_ = gpu::Event::make();
  gpu::DeviceBuffer tallies_;
  gpu::PinnedBuffer report_;
  std::deque<std::uint64_t> awaited_;  // iterations whose residuals the host has not read
  std::uint64_t launched_ = 0;         // iterations
  std::uint64_t done_ = 0;             // iterations that count
  std::uint64_t timed_ = 0;            // iterations of this batch whose parts are timed
  Stopwatch interior_watch_;
  Stopwatch edges_watch_;
  Stopwatch pack_watch_;
  Stopwatch exchange_watch_;
};

}  // namespace

}  // namespace device

std::unique_ptr<Worker> make_device_worker(const Context& context, const JacobiOptions& plan, const Grid& grid,
                                           Halos& halos) {
  if (plan.single) return std::make_unique<device::DeviceWorker<float>>(context, plan, grid, halos);
  return std::make_unique<device::DeviceWorker<double>>(context, plan, grid, halos);
}

}  // namespace volley::jacobi
