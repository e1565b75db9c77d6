// `staged/pipelined`: GPU -> host -> MPI -> host -> GPU in chunks: while one chunk is copied from the device, MPI sends
// the chunk before it, and the chunk before that is copied to the other device.
#include <array>

#include "gpu/buffers.cuh"
#include "transport/host_driven.hpp"
#include "transport/mpi_channel.hpp"
#include "transport/staged/chunked_messages.cuh"
#include "transport/staged/mpi_chunks.hpp"

namespace volley {

namespace {

// MPI through host memory is the slowest part: B = 12 GB/s and o = 6 us a chunk, measured between two processes on a
// host with two H200s, give 275 KB for 1 MiB, growing with the root of N. Chunks of more than 1 MiB would not stay in
// the caches between the copy engines and MPI's copy.
constexpr std::array<ChunkRow, 4> rows{{
    {128 * kib, 128 * kib},
    {1 * mib, 256 * kib},
    {4 * mib, 512 * kib},
    {16 * mib, 1 * mib},
}};

// The ring has room for four of the largest chunks: one at each of the three stages, and one more so that no stage
// waits for another.
constexpr ChunkPolicy policy{rows, 4 * mib};

class PipelinedChannel : public ChunkedChannel<MpiChunks<gpu::PinnedBuffer>> {
 public:
  PipelinedChannel() : ChunkedChannel(policy) {}

  void open(const RankGroup& pair, const Buffers& buffers) {
    mpi_.open(pair, buffers);
    pipeline_.transport().open(pair);
    pipeline_.copies().open();
  }
  void prepare(const View& view) {
    ChunkedChannel::prepare(view);
    pipeline_.transport().reserve(true, true);
  }
  void close() {
    pipeline_.transport().free();
    pipeline_.copies().close();
    mpi_.close();
  }
  void acknowledge() { mpi_.acknowledge(); }
  void await_acknowledgement() { mpi_.await_acknowledgement(); }

 private:
  MpiChannel mpi_;  // for acknowledgements
};

}  // namespace

std::unique_ptr<Transport> make_staged_pipelined() { return std::make_unique<HostDriven<PipelinedChannel>>(); }

}  // namespace volley
