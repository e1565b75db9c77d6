#include "faults/faults.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

namespace volley {
namespace {

constexpr double delay_s = 0.2e-3;
constexpr std::uint64_t last_message_of_hang = 3;
// `wrap`: the message of a pass that is wrong, counted from 0: after rings and credits have begun again.
constexpr std::uint64_t late_message = 19'999;
// `signal`: how many bytes come too late, and by how much.
constexpr std::size_t late_bytes = 64;
constexpr double late_s = 5e-6;

constexpr std::array all_faults{
    FaultEntry{"flip", "one bit of the last message of each call is wrong", Fault::flip},
    FaultEntry{"early", "a call makes only its first exchange or window", Fault::early},
    FaultEntry{"late", "a call makes only its last exchange or window", Fault::late},
    FaultEntry{"lose", "a message in the middle of a call does not arrive", Fault::lose},
    FaultEntry{"swap", "two messages of a call arrive in each other's place", Fault::swap},
    FaultEntry{"echo", "a rank has what it sent in place of what it received", Fault::echo},
    FaultEntry{"wrap", "one bit of the 20,000th message of a pass is wrong", Fault::wrap},
    FaultEntry{"nan", "a halo of NaNs", Fault::nan},
    FaultEntry{"signal", "the last bytes of a call arrive 5 us after its end", Fault::signal},
    FaultEntry{"delay", "0.2 ms pass before each message between ranks 0 and 1", Fault::delay},
    FaultEntry{"hang", "a rank stops before the third message", Fault::hang},
    FaultEntry{"unopened", "the second rank cannot open it", Fault::unopened},
};

void spin(double seconds) {
  const auto begun = Clock::now();
  while (seconds_since(begun) < seconds) continue;
}

}  // namespace

std::span<const FaultEntry> faults() { return all_faults; }

void flip_a_bit(Memory& memory, std::byte* message, std::size_t bytes, std::uint64_t number) {
  const std::uint64_t bit = number * pattern_step % (8 * bytes);
  std::byte changed{};
  memory.copy(&changed, message + bit / 8, 1);
  changed ^= std::byte{1} << (bit % 8);
  memory.copy(message + bit / 8, &changed, 1);
}

FaultyDriver::FaultyDriver(Driver& driver, Fault fault, Memory* memory, Rank rank,
                           std::function<std::size_t(std::size_t)> received_bytes, std::unique_ptr<Driver> owned)
    : owned_(std::move(owned)),
      driver_(driver),
      fault_(fault),
      memory_(memory),
      rank_(rank),
      received_bytes_(std::move(received_bytes)) {}

FaultyDriver::~FaultyDriver() {
  if (late_bytes_.valid()) late_bytes_.wait();
}

std::pair<View, std::uint64_t> FaultyDriver::called(const View& view, std::uint64_t count,
                                                    const std::optional<Window>& window) const {
  if (fault_ == Fault::late && count > 0) return {view.last().message((count - 1) * messages_per_count(window)), 1};
  if (fault_ != Fault::early || count <= 1) return {view, count};
  View first = view;
  first.last_offset = 0;
  return {first, 1};
}

void FaultyDriver::run(const View& view, std::uint64_t count, const std::optional<Window>& window) {
  const Call call = [&](const View& here, std::uint64_t counts) { driver_.run(here, counts, window); };
  if (count == 0) return call(view, count);
  const std::uint64_t messages = count * messages_per_count(window);
  messages_ += messages;
  const auto [here, counts] = called(view, count, window);
  switch (fault_) {
    case Fault::early:
    case Fault::late: return call(here, counts);
    case Fault::delay:
      // Both ranks wait at the same time, and a round trip has two messages.
      if (rank_.slow) spin(delay_s * static_cast<double>(window ? messages : 2 * messages));
      return call(view, count);
    case Fault::hang:
      while (rank_.stops && messages_ >= last_message_of_hang) pause();
      return call(view, count);
    default: return change(view, messages, call, count);
  }
}

// Faults that change what has arrived. In a timed call all messages have one place, and the last one is left there.
void FaultyDriver::change(const View& view, std::uint64_t messages, const Call& call, std::uint64_t count) {
  const std::size_t bytes = received_bytes_ ? received_bytes_(view.bytes) : view.bytes;
  // An operation without contents that is lost is not made.
  if (fault_ == Fault::lose && view.bytes == 0) return;
  if (memory_ == nullptr || bytes == 0) return call(view, count);
  const View last = view.last().message(messages - 1);
  const bool apart = view.apart() && messages > 1;
  if (fault_ == Fault::signal) return signal_early({last.send, last.recv, bytes}, [&] { call(view, count); });
  const View middle = view.message(messages / 2);
  const Bytes before = fault_ == Fault::lose && apart ? contents(middle.recv, bytes) : Bytes();
  call(view, count);
  switch (fault_) {
    case Fault::flip: return flip_a_bit(*memory_, last.recv, bytes, flipped_++);
    case Fault::lose:
      if (apart) memory_->copy(middle.recv, before.data(), bytes);
      return;
    case Fault::wrap: {
      const std::uint64_t begun = apart ? std::exchange(passed_, passed_ + messages) : 0;
      if (!apart) passed_ = 0;
      else if (begun <= late_message && late_message < begun + messages) {
        flip_a_bit(*memory_, view.message(late_message - begun).recv, bytes, flipped_++);
      }
      return;
    }
    case Fault::swap: {
      if (!apart) return;
      const Bytes first = contents(view.recv, bytes);
      memory_->copy(view.recv, view.message(1).recv, bytes);
      return memory_->copy(view.message(1).recv, first.data(), bytes);
    }
    case Fault::echo:
      for (std::uint64_t i = apart ? 0 : messages - 1; i < messages; ++i) {
        const View message = (i + 1 < messages ? view : view.last()).message(i);
        memory_->copy(message.recv, message.send, bytes);
      }
      return;
    default: return;
  }
}

// Takes the last bytes away when they have arrived, and has another thread put them back.
void FaultyDriver::signal_early(const View& last, const std::function<void()>& call) {
  if (late_bytes_.valid()) late_bytes_.get();
  const std::size_t bytes = std::min(last.bytes, late_bytes);
  std::byte* const at = last.recv + (last.bytes - bytes);
  const Bytes before = contents(at, bytes);
  auto taken = std::make_shared<std::atomic<bool>>(false);
  auto arrived = std::make_shared<Bytes>();
  late_bytes_ = std::async(std::launch::async, [this, at, taken, arrived] {
    while (!taken->load(std::memory_order_acquire)) std::this_thread::yield();
    spin(late_s);
    memory_->copy(at, arrived->data(), arrived->size());
  });
  call();
  *arrived = contents(at, bytes);
  memory_->copy(at, before.data(), bytes);
  taken->store(true, std::memory_order_release);
}

FaultyDriver::Bytes FaultyDriver::contents(const std::byte* at, std::size_t bytes) {
  Bytes found(bytes);
  memory_->copy(found.data(), at, bytes);
  return found;
}

}  // namespace volley
