// A rank's part of the problem on its device.
//
// There are two streams. One has the interiors. The other one, whose blocks have priority, has the edges, which need
// the halos and become the next halos, and then the exchange:
//
//   interior   | interior k      | interior k + 1  | ...          interior k + 1 waits for interior k and edges k,
//   edges        edges k, halos k  edges k + 1, halos k + 1        edges k + 1 waits for interior k and halos k.
//
// So the exchange may take as long as a whole sweep. Without overlap interior k waits for halos k.
//
// The first block of the next iteration writes the residual of an iteration to host memory, so that the host need not
// wait for it; the host reads it before it enqueues the iteration after the next. When the host finds the end, one more
// iteration is running: it writes the plane of two iterations before, and the last result stays as it is.
#include <atomic>
#include <deque>

#include "jacobi/device_field.cuh"
#include "jacobi/solver.hpp"

namespace volley::jacobi {
namespace {

// Iterations from one whose parts are timed to the next: time stamps take the device some time.
constexpr std::uint64_t timed_every = 16;
// Querying the device and libraries takes longer than reading a word.
constexpr unsigned polls_between_checks = 4096;
constexpr unsigned pack_blocks = 64;

template <class Real>
class DeviceSolver final : public Solver {
 public:
  DeviceSolver(const Context& context, const JacobiOptions& options, const Grid& grid, Halos& halos)
      : Solver(context, options, grid, halos), field_(grid), residual_memory_(2), report_(1) {
    gpu::zero(residual_memory_.data(), 2 * sizeof(ResidualMax));
    *report_.data() = {0, 0};
  }

  int threads() const override { return 0; }

  void copy(std::uint64_t times) override {
    for (std::uint64_t i = 0; i < times; ++i) field_.copy(done_, interior_);
    interior_.synchronize();
  }

  std::uint64_t advance(std::uint64_t most) override {
    const std::uint64_t before = done_;
    const std::uint64_t last = std::min(options_.iterations, before + most);
    if (launched_ == 0) first_halos();
    while (launched_ < last) {
      // When an iteration is enqueued, only the residual of the one before may be unread.
      if (launched_ >= 2) read_residuals(launched_ - 2);
      if (over()) break;
      launch_iteration();
    }
    drain();
    add_parts(launched_ - before);
    return done_ - before;
  }

  std::uint64_t hash() override { return field_.hash(done_); }
  double deviation() override { return field_.deviation(done_); }
  std::optional<std::array<std::int64_t, 2>> first_broken() override { return field_.first_broken(done_); }

 private:
  [[nodiscard]] ResidualMax* residual(std::uint64_t iteration) const { return residual_memory_.data() + iteration % 2; }
  [[nodiscard]] bool is_unread(std::uint64_t iteration) const {
    return std::find(unread_.begin(), unread_.end(), iteration) != unread_.end();
  }

  // Exchanges the halos of the initial field. Only these are packed.
  void first_halos() {
    if (halos_.none()) return;
    for (int place = 0; place < 2; ++place) {
      halos_.turn();
      pack_messages<<<pack_blocks, edge_threads, 0, edges_.get()>>>(edge_sweep(0, {}, halos_.messages()));
      gpu::check_launch();
    }
    exchange(false);
  }

  void launch_iteration() {
    const std::uint64_t k = launched_++;
    const bool timed = timed_ == 0 || k % timed_every == 0;  // at least one in each batch
    timed_ += timed ? 1 : 0;
    if (halos_.none()) return launch_interior(k, timed);
    const auto received = halos_.messages();
    halos_.turn();
    edges_.wait_for(swept_);
    launch_edges(edge_sweep(k, received, halos_.messages()), timed);
    const gpu::Event& edges_before = edged_[(k + 1) % 2];
    edged_[k % 2].record(edges_);
    if (options_.overlap) {
      interior_.wait_for(edges_before);
      launch_interior(k, timed);
      exchange(timed);
    } else {
      exchange(timed);
      arrived_.record(edges_);
      interior_.wait_for(arrived_);
      launch_interior(k, timed);
    }
  }

  template <class Enqueue>
  static void enqueue(bool timed, gpu::Stopwatch& watch, const gpu::Stream& cuda_stream, Enqueue&& enqueue) {
    if (timed) watch.begin(cuda_stream);
    enqueue();
    if (timed) watch.end(cuda_stream);
  }

  void launch_interior(std::uint64_t k, bool timed) {
    constexpr std::int64_t tile_rows = sweep_rows * sweep_warps;
    const bool due = residuals_.due(k);
    InteriorSweep<Real> job{};
    job.from = field_.before(k);
    job.to = field_.before(k + 1);
    job.region = grid_.interior();
    job.tiles_across = job.from.stride * static_cast<std::int64_t>(sizeof(Real)) / pitch_bytes;
    job.tiles = job.tiles_across * ((job.region.y1 - job.region.y0 + tile_rows - 1) / tile_rows);
    job.upwards = k % 2 == 1;
    job.residual = due ? residual(k) : nullptr;
    job.previous = k > 0 && is_unread(k - 1) ? residual(k - 1) : nullptr;
    job.report = report_.data();
    job.number = k;
    const auto kernel = due ? sweep_interior<Real, true> : sweep_interior<Real, false>;
    enqueue(timed, interior_watch_, interior_, [&] {
      kernel<<<static_cast<unsigned>(job.tiles), sweep_warps * warp_threads, 0, interior_.get()>>>(job);
      gpu::check_launch();
    });
    swept_.record(interior_);
    if (due) unread_.push_back(k);
  }

  [[nodiscard]] EdgeSweep<Real> edge_sweep(std::uint64_t k, const std::array<View, 4>& received,
                                           const std::array<View, 4>& next) const {
    EdgeSweep<Real> job{};
    job.from = field_.before(k);
    job.to = field_.before(k + 1);
    job.columns = grid_.columns;
    job.rows = grid_.rows;
    const auto regions = grid_.edges();
    for (std::size_t i = 0; i < regions.size(); ++i) {
      job.regions[i] = regions[i];
      job.first[i + 1] = job.first[i] + regions[i].points();
      job.halos[i] = {reinterpret_cast<const Real*>(received[i].recv), reinterpret_cast<Real*>(next[i].send)};
    }
    job.residual = residuals_.due(k) ? residual(k) : nullptr;
    return job;
  }

  void launch_edges(const EdgeSweep<Real>& job, bool timed) {
    const auto blocks = static_cast<unsigned>((job.first[4] + edge_threads - 1) / edge_threads);
    enqueue(timed, edges_watch_, edges_, [&] {
      sweep_edges<<<blocks, edge_threads, 0, edges_.get()>>>(job);
      gpu::check_launch();
    });
  }

  // Enqueued after the edges. If the transport enqueues copies to and from host memory, their time counts as packing;
  // if it enqueues the transfer, the time counts as exchange.
  void exchange(bool timed) {
    gpu::Stopwatch& watch = halos_.staged_through_host() ? pack_watch_ : exchange_watch_;
    if (!halos_.host_driven()) {
      return enqueue(timed, watch, edges_, [&] {
        halos_.enqueue_send(edges_.get());
        halos_.enqueue_recv(edges_.get());
      });
    }
    enqueue(timed, watch, edges_, [&] { halos_.enqueue_send(edges_.get()); });
    left_.record(edges_);
    poll_until([&] { return left_.complete(); });
    parts_.exchange_s += volley::timed([&] {
      halos_.start();
      halos_.finish();
    });
    enqueue(timed && halos_.staged_through_host(), watch, edges_, [&] { halos_.enqueue_recv(edges_.get()); });
  }

  // A failed device or a missing halo throws an exception; the watchdog ends any other hang.
  template <class Ready>
  void poll_until(Ready&& ready) {
    for (unsigned polls = 1; !ready(); ++polls) {
      if (polls % polls_between_checks != 0) continue;
      (void)interior_.busy();
      halos_.progress();
    }
  }

  void read_residuals(std::uint64_t iteration) {
    while (!unread_.empty() && unread_.front() <= iteration && !over()) {
      const std::uint64_t next = unread_.front();
      const std::atomic_ref number(report_.data()->number);
      poll_until([&] { return number.load(std::memory_order_acquire) == next + 1; });
      reduce(next, report_.data()->bits);
      unread_.pop_front();
      if (over()) done_ = next + 1;
    }
  }

  // Ends a batch: everything is complete, and all residuals are read.
  void drain() {
    if (launched_ >= 2) read_residuals(launched_ - 2);
    if (launched_ > 0 && !over() && is_unread(launched_ - 1)) {
      const std::uint64_t k = launched_ - 1;
      interior_.wait_for(edged_[k % 2]);
      publish_last_residual<<<1, 1, 0, interior_.get()>>>(residual(k), report_.data(), k + 1);
      gpu::check_launch();
      read_residuals(k);
    }
    poll_until([&] { return !interior_.busy() && !edges_.busy(); });
    halos_.progress();
    if (!over()) done_ = launched_;
  }

  // Extrapolates from the iterations whose parts the device timed.
  void add_parts(std::uint64_t iterations) {
    if (timed_ == 0) return;
    const double scale = static_cast<double>(iterations) / static_cast<double>(timed_);
    parts_.interior_s += scale * interior_watch_.read_s();
    parts_.edges_s += scale * edges_watch_.read_s();
    parts_.pack_s += scale * pack_watch_.read_s();
    parts_.exchange_s += scale * exchange_watch_.read_s();
    timed_ = 0;
  }

  DeviceField<Real> field_;
  gpu::Stream interior_ = gpu::Stream::make();
  gpu::Stream edges_ = gpu::Stream::urgent();
  gpu::Event swept_ = gpu::Event::make();
  std::array<gpu::Event, 2> edged_{gpu::Event::make(), gpu::Event::make()};
  gpu::Event left_ = gpu::Event::make();
  gpu::Event arrived_ = gpu::Event::make();
  gpu::DeviceValues<ResidualMax> residual_memory_;  // two, used alternately
  gpu::PinnedValues<ResidualReport> report_;
  std::deque<std::uint64_t> unread_;  // iterations whose residuals the host has not read
  std::uint64_t launched_ = 0;        // iterations
  std::uint64_t timed_ = 0;           // iterations of this batch whose parts are timed
  gpu::Stopwatch interior_watch_;
  gpu::Stopwatch edges_watch_;
  gpu::Stopwatch pack_watch_;
  gpu::Stopwatch exchange_watch_;
};

}  // namespace

std::unique_ptr<Solver> make_device_solver(const Context& context, const JacobiOptions& options, const Grid& grid,
                                           Halos& halos) {
  if (options.single_precision) return std::make_unique<DeviceSolver<float>>(context, options, grid, halos);
  return std::make_unique<DeviceSolver<double>>(context, options, grid, halos);
}

}  // namespace volley::jacobi
