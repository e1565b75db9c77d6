// Fixed sampling: one batch, as the tutorial makes it.
#include "measure/sampler.hpp"

namespace volley {
namespace {

// A large block of glibc's malloc begins this many bytes after a page boundary.
constexpr std::size_t malloc_header_bytes = 16;

}  // namespace

// The tutorial's measurement: `warmup` exchanges, then one clock pair around `iterations`. Without any warm-up the
// first exchange has a clock pair of its own; see Batches::run_first().
void Sampler::fixed_batch(Series& series) {
  series.count = sampling_.iterations;
  if (workload_.one_buffer) {
    one_buffer_batch(series);
    return;
  }
  fill(series);
  warm_up(series, sampling_.warmup);
  record(series, take(series, sampling_.iterations), sampling_.iterations);
}

// One buffer for both directions. The answer then equals the message that was sent: it proves neither that data came
// back nor that more than one exchange was made. Two more exchanges between separate buffers, not timed, prove that.
void Sampler::one_buffer_batch(Series& series) {
  // malloc, from which the tutorial's buffer comes, puts its header before a block.
  std::byte* const place = series.view.send + (series.memory == MemoryKind::host ? malloc_header_bytes : 0);
  const View one{place, place, series.view.bytes};
  CheckedMessages messages = messages_of(series, series.view);
  messages.send = place;
  const bool warm = sampling_.warmup > 0;
  if (warm) {
    control_.ready();
    batches_.run_first(series, one, sampling_.warmup);
  }
  series.messages->fill_one_buffer(messages, control_.leads());
  control_.ready();
  record(series, batches_.run_first(series, one, series.count), series.count);
  if (!series.verified()) return;
  note(series, series.messages->check_one_buffer(messages));
  series.messages_verified += 1;
  fill(series);
  take(series, std::min<std::uint64_t>(series.count, 2));
}

}  // namespace volley
