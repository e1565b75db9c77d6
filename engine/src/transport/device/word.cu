// `device/word`: `device` in its simplest form, for messages of up to 8 bytes. There is no fence and no barrier: what
// it takes is what the link and a poll take.
#include "transport/device/kernel_driven.cuh"

namespace volley {
namespace {

using namespace device;

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

class WordTransport final : public InboxDriven {
 public:
  WordTransport() : InboxDriven("device/word") {}
  [[nodiscard]] std::size_t max_message_bytes() const override { return sizeof(Word); }
  void open(const RankGroup& pair, const Buffers&) override { open_inboxes(pair); }

  void round_trips(const View& view, std::uint64_t exchanges) override {
    const Launch launch = launch_of(view, exchanges);
    word_round_trips<Word><<<1, 1, 0, stream().get()>>>(launch);
    gpu::check_launch();
    complete(launch, exchanges);
  }

  void windows(const View& view, std::uint64_t count, const Window& window) override {
    const Launch launch = windows_of(launch_of(view, count), window);
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

std::unique_ptr<Transport> make_device_word() { return std::make_unique<WordTransport>(); }

}  // namespace volley
