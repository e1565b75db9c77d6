// `device/word`: `device` in its simplest form, for messages of up to 8 bytes. One thread stores the message together
// with its number, 16 bytes in one instruction, into the other device's memory; one thread there polls them. There is
// no fence and no barrier: what it takes is what the link and a poll take.
#include <algorithm>

#include "gpu/kernel_launch.cuh"
#include "transport/device/launches.cuh"

namespace volley {

namespace {

using device::Inboxes;
using device::Launch;

using Word = std::uint64_t;

// Copies the data of a line to their place in the message at recv_offset() `offset`. Returns false if the line did not
// arrive.
__device__ bool receive_word(const device::PeerWait& wait, const device::FlaggedLine* line,
                             const device::MessageWord<Word>& mine, std::uint64_t offset, std::uint32_t number) {
  device::FlaggedLine found;
  const bool good = device::await_peer(wait, number, [&] {
    found = device::load_line(line);
    return device::carries(found, number);
  });
  if (good) device::scatter(mine, offset, device::data_of(found));
  return good;
}

// The answer is loaded when the message is in its place.
__global__ void word_round_trips(const Launch launch) {
  const auto mine = device::message_word<Word>(launch, 0);
  const auto send = [&](std::uint64_t exchange, std::uint64_t offset) {
    const auto number = static_cast<std::uint32_t>(launch.last + exchange);
    device::store_line(launch.inbox_there->lines, device::flagged(device::gather(mine, offset), number));
  };
  if (launch.leads && launch.count > 0) send(1, device::send_offset(launch, 1));
  for (std::uint64_t exchange = 1; exchange <= launch.count; ++exchange) {
    const std::uint64_t next = launch.leads ? exchange + 1 : exchange;
    const std::uint64_t from = device::send_offset(launch, next);
    const std::uint64_t to = device::recv_offset(launch, exchange);
    const auto number = static_cast<std::uint32_t>(launch.last + exchange);
    if (!receive_word(launch.wait, launch.inbox->lines, mine, to, number)) return;
    if (next <= launch.count) send(next, from);
  }
}

// A window has so many messages in flight, a thread and a line for each; the rest of it follows when these have
// arrived. Every message has its own number.
constexpr unsigned messages_in_flight = device::max_threads;
static_assert(messages_in_flight <= device::max_lines);

__global__ void word_windows(const Launch launch) {
  const auto messages = static_cast<std::uint64_t>(launch.window_messages);
  const unsigned lane = threadIdx.x;
  const auto mine = device::message_word<Word>(launch, 0);
  for (std::uint64_t done = 0; done < launch.count * messages;) {
    const std::uint64_t in_window = done % messages;
    const std::uint64_t together = min(messages - in_window, std::uint64_t{messages_in_flight});
    const std::uint64_t window_offset = done / messages + 1 == launch.count ? launch.last_offset : 0;
    const std::uint64_t place = (done + lane) * launch.stride;
    const auto number = static_cast<std::uint32_t>(launch.last + done + lane + 1);
    done += together;
    const bool takes_part = lane < together;
    if (launch.sends && takes_part) {
      const Word data = device::gather(mine, place + window_offset);
      device::store_line(&launch.inbox_there->lines[lane], device::flagged(data, number));
    }
    if (launch.receives) {
      const bool good = !takes_part || receive_word(launch.wait, &launch.inbox->lines[lane], mine, place, number);
      if (!__syncthreads_and(good)) return;
      if (lane == 0) device::raise(launch.inbox_there->acknowledged, launch.last + done);
    }
    if (launch.sends && !device::await_acknowledgement(launch, launch.last + done)) return;
  }
}

class WordTransport final : public KernelDriven {
 public:
  [[nodiscard]] std::size_t max_message_bytes() const override { return sizeof(Word); }

  void open(const RankGroup& pair, const Buffers&) override { inboxes_.open(pair, timeout_ns()); }
  void prepare(const View&) override { inboxes_.reset(); }
  void close() override { inboxes_.close(); }

  void round_trips(const View& view, std::uint64_t exchanges) override {
    const Launch launch = inboxes_.launch_of(view, exchanges);
    word_round_trips<<<1, 1, 0, inboxes_.stream().get()>>>(launch);
    gpu::check_launch();
    inboxes_.complete(launch, exchanges);
  }

  void windows(const View& view, std::uint64_t count, const Window& window) override {
    const Launch launch = Inboxes::windows_of(inboxes_.launch_of(view, count), window);
    const auto messages = static_cast<unsigned>(window.messages);
    word_windows<<<1, std::min(messages, messages_in_flight), 0, inboxes_.stream().get()>>>(launch);
    gpu::check_launch();
    inboxes_.complete(launch, count * messages);
  }

  [[nodiscard]] Json facts() const override {
    return {{"max_message_bytes", sizeof(Word)},
            {"windows_max_messages_in_flight", messages_in_flight},
            {"timeout_s", timeout_s()}};
  }

 private:
  Inboxes inboxes_{"device/word"};
};

}  // namespace

std::unique_ptr<Transport> make_device_word() { return std::make_unique<WordTransport>(); }

}  // namespace volley
