#include "jacobi/problem.hpp"

#include <algorithm>
#include <cmath>

#include "measure/stopping.hpp"
#include "measure/timing_loop.hpp"
#include "mpi/text.hpp"

namespace volley::jacobi {

namespace {

// A batch of iterations is about this long, and there are at least so many of them: each ends with a look at the halos.
constexpr double batch_s = 0.2;
constexpr std::uint64_t fewest_batches = 20;
// Copies: samples of each, and how long one is at least.
constexpr int copy_samples = 5;
constexpr double copy_sample_s = 2e-3;
// Bytes a second that the first touch of pages surpasses on any machine; the watchdog has more patience for more bytes.
constexpr double slowest_pass = 2e8;

// The largest number of all ranks'.
double largest_of(double value, MPI_Comm world) {
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, world));
  return value;
}

// Seconds that the slowest rank takes for `body(count)`, all having begun together.
template <class Body>
double slowest(const Context& context, Body&& body, std::uint64_t count) {
  VOLLEY_MPI(MPI_Barrier(context.world.get()));
  return largest_of(timed(body, count), context.world.get());
}

// Adds the seconds until its end to a sum.
class Adding {
 public:
  explicit Adding(double& sum_s) : sum_s_(sum_s), begun_(Clock::now()) {}
  Adding(const Adding&) = delete;
  Adding& operator=(const Adding&) = delete;
  ~Adding() { sum_s_ += seconds_since(begun_); }

 private:
  double& sum_s_;
  Clock::time_point begun_;
};

}  // namespace

Problem::Problem(const Context& context, const Plan& plan, const JacobiOptions& options, const Grid& grid,
                 const TransportEntry& entry, Halos& halos, Watchdog& watchdog)
    : context_(context),
      plan_(plan),
      options_(options),
      grid_(grid),
      entry_(entry),
      halos_(halos),
      watchdog_(watchdog),
      point_bytes_(options.single ? sizeof(float) : sizeof(double)) {}

void Problem::begin() {
  const Adding elapsed(found_.elapsed_s);
  allow_for_pass();
  const auto make = entry_.memory == MemoryKind::device ? make_device_worker : make_host_worker;
  worker_ = make(context_, options_, grid_, halos_);
  found_.threads = -static_cast<int>(largest_of(-worker_->threads(), context_.world.get()));
  choose_stores();
  halos_.open();
  found_.cold_exchange_s = largest_of(halos_.prove(), context_.world.get());
  judge_halos();
}

bool Problem::going() const {
  return found_.reason.empty() && !worker_->residuals().converged() && found_.iterations < options_.iterations;
}

void Problem::batch() {
  const Adding elapsed(found_.elapsed_s);
  const std::uint64_t most = next_batch();
  if (plan_.verify) halos_.poison();
  watchdog_.progress(10 * iteration_s() * static_cast<double>(most));
  const double elapsed_s = slowest(context_, [&](std::uint64_t count) { worker_->advance(count); }, most);
  found_.batches_s.push_back(elapsed_s);
  found_.batch_iterations.push_back(worker_->iterations() - found_.iterations);
  found_.iterations = worker_->iterations();
  if (plan_.verify) halos_.compare();
  judge_halos();
  judge_field();
}

void Problem::finish() {
  const Adding elapsed(found_.elapsed_s);
  tell();
  copies(found_.copy_s);
  worker_.reset();
  halos_.close();
}

double Problem::left_s() const {
  return going() ? static_cast<double>(options_.iterations - found_.iterations) * iteration_s() : 0;
}

// A pass over the whole field may take a while.
void Problem::allow_for_pass() {
  const auto bytes = bytes_of_field(entry_.memory, grid_.columns(), grid_.rows(), point_bytes_);
  watchdog_.progress(static_cast<double>(bytes) / slowest_pass);
}

// The kind of stores that copies this very field faster, as measured; its copies are kept.
void Problem::choose_stores() {
  const double points = static_cast<double>(grid_.all_columns()) * static_cast<double>(grid_.all_rows());
  found_.copy_bytes = static_cast<std::uint64_t>(2 * static_cast<double>(point_bytes_) * points);
  const auto kinds = worker_->kinds_of_stores();
  if (kinds.empty()) copies(found_.copy_s);
  for (const Stores kind : kinds) {
    worker_->use(kind);
    std::vector<double> each_s;
    copies(each_s);
    if (found_.stores && median(each_s) >= median(found_.copy_s)) continue;
    found_.copy_s = std::move(each_s);
    found_.stores = kind;
  }
  if (found_.stores) worker_->use(*found_.stores);
}

// Copies of the whole field by all ranks at once: seconds a copy, of the slowest rank.
void Problem::copies(std::vector<double>& each_s) {
  const auto body = [&](std::uint64_t count) { worker_->copy(count); };
  allow_for_pass();
  const double once_s = slowest(context_, body, 1);
  const auto count = static_cast<std::uint64_t>(std::max(1.0, std::ceil(copy_sample_s / once_s)));
  for (int i = 0; i < copy_samples; ++i) {
    watchdog_.progress(10 * once_s * static_cast<double>(count));
    each_s.push_back(slowest(context_, body, count) / static_cast<double>(count));
  }
}

double Problem::iteration_s() const {
  return found_.batches_s.empty() ? 0 : found_.batches_s.back() / static_cast<double>(found_.batch_iterations.back());
}

std::uint64_t Problem::next_batch() const {
  if (found_.batches_s.empty()) return 1;
  const auto wanted = static_cast<std::uint64_t>(std::ceil(batch_s / iteration_s()));
  return std::clamp(wanted, std::uint64_t{1}, std::max(std::uint64_t{1}, options_.iterations / fewest_batches));
}

// All ranks come to the same.
void Problem::judge_halos() {
  found_.wrong = halos_.wrong();
  if (!found_.wrong) return;
  const auto& [mismatch, side, neighbour] = *found_.wrong;
  found_.reason = "the halo that rank " + std::to_string(mismatch.rank) + " received on its " + name_of(side) +
                  " side differs from what rank " + std::to_string(neighbour) + " sent in " +
                  std::to_string(mismatch.wrong_bytes) + (mismatch.wrong_bytes == 1 ? " byte" : " bytes") +
                  ", first at offset " + std::to_string(mismatch.offset_bytes) +
                  (found_.iterations == 0 ? ", before the first iteration"
                                          : ", in iteration " + std::to_string(found_.iterations - 1));
}

void Problem::judge_field() {
  if (!found_.reason.empty() || !worker_->residuals().broken()) return;
  const auto mine = worker_->first_broken();
  const auto points = mpi::all_gather(
      mine ? "column " + std::to_string((*mine)[0]) + ", row " + std::to_string((*mine)[1]) : "", context_.world.get());
  const auto first = std::find_if(points.begin(), points.end(), [](const auto& point) { return !point.empty(); });
  const auto rank = std::to_string(first - points.begin());
  found_.reason = "the field is no longer finite in iteration " + std::to_string(found_.iterations - 1) + ": " +
                  (first == points.end() ? "a change is too large" : "first at " + *first + ", on rank " + rank);
}

void Problem::tell() {
  allow_for_pass();
  const MPI_Comm world = context_.world.get();
  found_.converged = worker_->residuals().converged();
  found_.residuals = worker_->residuals().kept();
  found_.parts.resize(static_cast<std::size_t>(context_.size));
  VOLLEY_MPI(
      MPI_Allgather(&worker_->parts(), sizeof(Parts), MPI_BYTE, found_.parts.data(), sizeof(Parts), MPI_BYTE, world));
  found_.messages_verified = halos_.compared();
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &found_.messages_verified, 1, MPI_UINT64_T, MPI_SUM, world));
  if (!found_.reason.empty()) return;
  std::uint64_t hash = worker_->hash();
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &hash, 1, MPI_UINT64_T, MPI_SUM, world));
  found_.hash = hash;
  found_.error = largest_of(worker_->error(), world);
}

}  // namespace volley::jacobi
