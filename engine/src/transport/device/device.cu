// `device`, and `device/word` below: kernels on both devices store directly into the other device's memory and poll
// flags there. One launch makes all exchanges of a batch; the host only starts it and waits for its end. Halos are
// stored and awaited by kernels between those that compute; no host takes part.
//
// There are two protocols:
//
//   short: every 16 bytes that are stored contain 12 bytes of a message and its number (gpu/kernels/flag.cuh).
//     They are stored to an inbox in the receiver's memory. Each thread polls one of these lines and copies its data to
//     its place. This needs no fence across the link and crosses it once; but a quarter of what is stored is no data.
//     Before the answer a barrier joins all threads: that of a block, or that of a cluster of blocks, which is quicker
//     than a barrier of a grid but needs compute capability 9.0.
//
//   long: several blocks store directly to the message's place in the receiver's memory.
//     When all threads of a block have stored (__syncthreads), one of them stores the message's number in that block's
//     word of the receiver's inbox with release semantics at system scope. The release is cumulative (PTX ISA,
//     "Causality order"), so it covers what the other threads stored before the barrier. *Every* block of the receiver
//     waits until it has acquired the words of *all* blocks of the sender. So every block knows that the whole message
//     has arrived, without a grid-wide barrier.
//
// In both protocols each message has a number, which only increases while the inboxes are in use and distinguishes the
// message from all earlier ones. One inbox is enough: a rank sends message n + 1 only after it has received the whole
// answer to message n, and the other rank starts the answer only when all its threads have read message n from the
// inbox.
#include <nv/target>

#include "transport/device/kernel_driven.cuh"

namespace volley {
namespace {

using namespace device;

// Barriers that join the threads of a block, or of a cluster of blocks: after wait() each of them sees what the others
// stored before it. A warp takes part with all its threads, or has left the kernel with all of them.
struct JoinBlock {
  __device__ static void wait() {
    if (blockDim.x <= 32) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
};

// Only in kernels that are launched as one cluster: gpu::max_cluster_blocks says whether that is possible. Default
// semantics, release and acquire at the scope of the cluster (PTX ISA, "barrier.cluster"). `aligned`: all threads of a
// warp take part together.
struct JoinCluster {
  __device__ static void wait() {
    __syncwarp();
    NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                                                  "barrier.cluster.wait.acquire.aligned;" :: : "memory");))
  }
};

// --- short messages --------------------------------------------------------------------------------------------------

constexpr unsigned line_bytes = sizeof(std::uint64_t) + sizeof(std::uint32_t);  // of a message

__host__ __device__ constexpr std::uint64_t lines_of(std::uint64_t bytes) {
  return (bytes + line_bytes - 1) / line_bytes;
}

// What one thread moves of each message. The heads of all lines are the first part of the message, the tails the rest:
// so both are aligned, and the threads of a warp access consecutive words.
struct MessageLine {
  MessageWord<std::uint64_t> head;
  MessageWord<std::uint32_t> tail;
};

// The words of line number `line`; without bytes if the message has fewer lines.
__device__ inline MessageLine message_line(const Launch& launch, unsigned line) {
  const std::uint64_t lines = lines_of(launch.bytes);
  const std::uint64_t head = line < lines ? std::uint64_t{line} * sizeof(std::uint64_t) : launch.bytes;
  const std::uint64_t tail =
      line < lines ? lines * sizeof(std::uint64_t) + std::uint64_t{line} * sizeof(std::uint32_t) : launch.bytes;
  return {message_word<std::uint64_t>(launch, head), message_word<std::uint32_t>(launch, tail)};
}

__device__ inline PackedData gather(const MessageLine& mine, std::uint64_t offset) {
  return {gather(mine.head, offset), gather(mine.tail, offset)};
}

// Copies a line's data to their place in the message at recv_offset() `offset`; false if the line did not arrive.
__device__ inline bool receive_line(const PeerWait& wait, const FlaggedLine* line, const MessageLine& mine,
                                    std::uint64_t offset, std::uint64_t number) {
  FlaggedLine found;
  const bool good = await_peer(wait, number, [&] {
    found = load_line(line);
    return carries_packed(found, static_cast<std::uint16_t>(number));
  });
  if (!good) return false;
  const PackedData data = packed_data_of(found);
  scatter(mine.head, offset, data.head);
  scatter(mine.tail, offset, data.tail);
  return true;
}

// One line for each thread. `Join`: of the threads of a message, so that each sees what the others have stored. The
// answer is loaded after that, as in a program that computes its answer from the message.
//
// A warp with a thread whose line did not arrive ends, after it has sent what it can: a vote between a message and its
// answer would take longer than a barrier. The other warps notice that while they wait for the next message.
template <class Join, bool stamped>
__global__ void __launch_bounds__(max_threads, 1) short_round_trips(const Launch launch) {
  const unsigned line = blockIdx.x * blockDim.x + threadIdx.x;
  const MessageLine mine = message_line(launch, line);
  const bool takes_part = mine.head.bytes > 0;
  const FlaggedLine* const here = &launch.inbox->lines[line];
  FlaggedLine* const there = &launch.inbox_there->lines[line];
  const auto send = [&](std::uint64_t exchange, std::uint64_t offset) {
    store_line(there, packed(gather(mine, offset), static_cast<std::uint16_t>(launch.last + exchange)));
    stamp<stamped>(launch, exchange);
  };
  if (launch.leads && launch.count > 0 && takes_part) send(1, send_offset(launch, 1));
  for (std::uint64_t exchange = 1; exchange <= launch.count; ++exchange) {
    const std::uint64_t next = launch.leads ? exchange + 1 : exchange;
    const std::uint64_t from = send_offset(launch, next);
    const std::uint64_t to = recv_offset(launch, exchange);
    const bool good = !takes_part || receive_line(launch.wait, here, mine, to, launch.last + exchange);
    Join::wait();
    if (next <= launch.count && takes_part && good) send(next, from);
    if (!__all_sync(~0U, good)) return;
  }
}

// --- long messages, and windows --------------------------------------------------------------------------------------

struct StoreWire {
  using Launch = device::Launch;
  const Launch& launch;
  const std::uint64_t vectors;
  __device__ explicit StoreWire(const Launch& of) : launch(of), vectors(vectors_in(of.send, of.recv_there, of.bytes)) {}

  __device__ void put(std::uint64_t from, std::uint64_t to) const {
    copy_bytes(launch.send + from, launch.recv_there + to, launch.bytes, vectors);
  }
  __device__ void announce(std::uint64_t number) const {
    __syncthreads();
    if (threadIdx.x == 0) raise(launch.inbox_there->arrived[blockIdx.x], number);
  }
  __device__ bool await(std::uint64_t number) const {
    return await_words(launch.wait, gridDim.x, number,
                       [&](unsigned block) { return is_raised(launch.inbox->arrived[block], number); });
  }
  __device__ void acknowledge(std::uint64_t number) const {
    if (threadIdx.x == 0) raise(launch.inbox_there->acknowledged, number);
  }
  __device__ bool await_acknowledgement(std::uint64_t number) const {
    return device::await_acknowledgement(launch, number);
  }
};

// --- halos: enqueued between kernels that compute --------------------------------------------------------------------

constexpr unsigned halo_threads = 256;
constexpr unsigned max_halo_blocks = 32;

// A thread that acquires the number sees the whole halo, because of this order: a block's stores, its thread 0's fence
// (__syncthreads, and fences are cumulative: PTX ISA, "Causality order"), the block's count, all counts, the last
// block's fence, the number.
__global__ void store_halo(const std::byte* from, std::byte* there, std::uint64_t bytes, Inbox* inbox,
                           Inbox* inbox_there, std::uint64_t number) {
  copy_bytes(from, there, bytes, vectors_in(from, there, bytes));
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence_system();
  if (atomicAdd(&inbox->halo_blocks_stored, 1U) != gridDim.x - 1) return;
  inbox->halo_blocks_stored = 0;
  __threadfence_system();
  raise(inbox_there->halo_arrived, number);
}

// Ends when the halo `number` has arrived. If it does not arrive, later halos are not awaited either.
__global__ void await_halo(Inbox* inbox, PeerWait wait, std::uint64_t number) {
  await_peer(wait, number, [&] { return is_raised(inbox->halo_arrived, number); });
}

// --- the host --------------------------------------------------------------------------------------------------------

// A line for each thread: in one block, or else in a cluster of blocks, whose barrier takes longer. No blocks if the
// message is too long for a cluster of `max_cluster` blocks.
constexpr Shape short_shape(std::size_t bytes, unsigned max_cluster) {
  const std::size_t lines = lines_of(bytes);
  const unsigned blocks = lines <= max_threads ? 1 : max_cluster;
  if (lines > std::size_t{blocks} * max_threads) return {0, 0};
  return {blocks, threads_for(round_up(lines, blocks) / blocks)};
}

class DeviceTransport final : public InboxDriven<WireDriven<StoreWire>>, public HaloExchange {
 public:
  DeviceTransport() : InboxDriven("device") {}
  [[nodiscard]] HaloExchange* halo() override { return this; }
  void open(const RankGroup& pair, const Buffers& buffers) override {
    open_inboxes(pair);
    agreed_step(pair, [&] {
      cluster_ = std::min({max_line_blocks, gpu::max_cluster_blocks(short_round_trips<JoinCluster, false>, max_threads),
                           gpu::max_cluster_blocks(short_round_trips<JoinCluster, true>, max_threads)});
    });
    cluster_ = std::min(cluster_, exchanged_with_peer(cluster_, pair));
    buffers_ = PeerBuffers(pair, buffers);
  }

  void round_trips(const View& view, std::uint64_t exchanges) override {
    const Shape shape = short_shape(view.bytes, cluster_);
    if (shape.blocks == 0) return WireDriven::round_trips(view, exchanges);
    const Launch launch = with_inboxes(launch_of(view, exchanges));
    if (shape.blocks == 1) {
      const auto kernel = launch.stamps ? short_round_trips<JoinBlock, true> : short_round_trips<JoinBlock, false>;
      kernel<<<1, shape.threads, 0, stream().get()>>>(launch);
      gpu::check_launch();
    } else {
      const auto kernel = launch.stamps ? short_round_trips<JoinCluster, true> : short_round_trips<JoinCluster, false>;
      gpu::launch_cluster(kernel, shape.blocks, shape.threads, stream().get(), launch);
    }
    complete(launch, exchanges);
  }

  void open_halo(const View& view) override { prepare(view, {}); }
  [[nodiscard]] bool host_driven() const override { return false; }

  void enqueue_send(const View& view, gpu::StreamHandle cuda_stream) override {
    const auto threads = view.bytes / sizeof(uint4) + 1;
    const auto blocks = std::clamp<std::size_t>((threads + halo_threads - 1) / halo_threads, 1, max_halo_blocks);
    store_halo<<<static_cast<unsigned>(blocks), halo_threads, 0, cuda_stream>>>(view.send, buffers_.opposite(view.recv),
                                                                                view.bytes, mine(), theirs(), next());
    gpu::check_launch();
  }
  void enqueue_recv(const View&, gpu::StreamHandle cuda_stream) override {
    await_halo<<<1, 1, 0, cuda_stream>>>(mine(), with_inboxes(launch_of({}, 0)).wait, last());
    gpu::check_launch();
  }
  void progress() override { check_halos(); }

  void close() override {
    buffers_ = {};
    InboxDriven::close();
  }

  [[nodiscard]] Json facts() const override {
    return {{"flag_in_word_up_to_bytes", std::size_t{cluster_} * max_threads * line_bytes},
            {"flag_in_word_max_threads", max_threads},
            {"flag_in_word_max_blocks", cluster_},
            {"direct_stores_max_blocks", blocks()},
            {"direct_stores_max_threads_per_block", max_threads},
            {"windows", "direct stores at every size"},
            {"timeout_s", timeout_s()}};
  }

 private:
  [[nodiscard]] Launch with_wire(Launch launch) const override {
    launch.recv_there = buffers_.opposite(launch.recv);
    return with_inboxes(launch);
  }

  unsigned cluster_ = 1;  // blocks of a cluster, the same on both ranks
  PeerBuffers buffers_;
};

// --- `device/word`: `device` in its simplest form, for messages of up to 8 bytes ---
//
// There is no fence and no barrier: what it takes is what the link and a poll take.

using Word = std::uint64_t;

// A window has this many messages in flight, a thread and a line for each; the rest of it follows when these have
// arrived. Every message has its own number.
constexpr unsigned messages_in_flight = max_threads;
static_assert(messages_in_flight <= max_lines);

__global__ void word_windows(const Launch launch) {
  const auto messages = static_cast<std::uint64_t>(launch.window_messages);
  const unsigned lane = threadIdx.x;
  const auto mine = message_word<Word>(launch, 0);
  for (std::uint64_t done = 0; done < launch.count * messages;) {
    const std::uint64_t in_window = done % messages;
    const std::uint64_t together = min(messages - in_window, std::uint64_t{messages_in_flight});
    const std::uint64_t window_offset = done / messages + 1 == launch.count ? launch.last_offset : 0;
    const std::uint64_t place = (done + lane) * launch.stride;
    const auto number = static_cast<std::uint32_t>(launch.last + done + lane + 1);
    done += together;
    const bool takes_part = lane < together;
    if (launch.sends && takes_part) {
      const Word data = gather(mine, place + window_offset);
      store_line(&launch.inbox_there->lines[lane], flagged(data, number));
    }
    if (launch.receives) {
      const bool good = !takes_part || receive_word(launch.wait, &launch.inbox->lines[lane], mine, place, number);
      if (!__syncthreads_and(good)) return;
      if (lane == 0) raise(launch.inbox_there->acknowledged, launch.last + done);
    }
    if (launch.sends && !await_acknowledgement(launch, launch.last + done)) return;
  }
}

class WordTransport final : public InboxDriven<KernelDriven> {
 public:
  WordTransport() : InboxDriven("device/word") {}
  [[nodiscard]] std::string refuses(std::size_t bytes) const override {
    return bytes > sizeof(Word) ? "it carries messages of up to 8 B" : InboxDriven::refuses(bytes);
  }
  void open(const RankGroup& pair, const Buffers&) override { open_inboxes(pair); }

  void round_trips(const View& view, std::uint64_t exchanges) override {
    const Launch launch = with_inboxes(launch_of(view, exchanges));
    const auto kernel = launch.stamps ? word_round_trips<Word, true> : word_round_trips<Word, false>;
    kernel<<<1, 1, 0, stream().get()>>>(launch);
    gpu::check_launch();
    complete(launch, exchanges);
  }

  void windows(const View& view, std::uint64_t count, const Window& window) override {
    const Launch launch = with_inboxes(windows_of(launch_of(view, count), window));
    const auto messages = static_cast<unsigned>(window.messages);
    word_windows<<<1, std::min(messages, messages_in_flight), 0, stream().get()>>>(launch);
    gpu::check_launch();
    complete(launch, count * messages);
  }

  [[nodiscard]] Json facts() const override {
    return {{"max_message_bytes", sizeof(Word)},
            {"windows_max_messages_in_flight", messages_in_flight},
            {"timeout_s", timeout_s()}};
  }
};

}  // namespace

std::unique_ptr<Transport> make_device() { return std::make_unique<DeviceTransport>(); }
std::unique_ptr<Transport> make_device_word() { return std::make_unique<WordTransport>(); }

}  // namespace volley
