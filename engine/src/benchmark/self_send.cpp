#include "benchmark/self_send.hpp"

#include <algorithm>

#include "measure/memory.hpp"

namespace volley {

namespace {

// The message in both directions at once is the one message: the receive is posted before the send.
bool arrives(Transport& transport, Memory& memory, const View& view) {
  const std::uint64_t seed = seed_of({view.bytes, 0, 0});
  memory.fill(view.send, view.bytes, seed);
  memory.poison(view.recv, view.bytes, seed);
  transport.prepare(view);
  transport.windows(view, 1, {.messages = 1, .direction = Direction::bi});
  return !memory.check(view.recv, view.bytes, seed);
}

}  // namespace

std::string sent_to_itself(const Context& context, const Plan& plan, const TransportEntry& entry) {
  if (!entry.mpi || plan.sizes_bytes.empty()) return "needs two ranks; this job has one";
  if (entry.memory == MemoryKind::device && context.gpus.devices == 0) return context.gpus.reason;
  auto pair = make_group(context, {0});
  const auto memory = make_memory(entry.memory);
  const auto transport = entry.make();
  const auto capacity = *std::max_element(plan.sizes_bytes.begin(), plan.sizes_bytes.end());
  const Buffers buffers = memory->reserve(capacity);
  transport->open(context, *pair, buffers, capacity);
  std::string reason;
  for (const auto bytes : plan.sizes_bytes) {
    if (!reason.empty()) break;
    if (!arrives(*transport, *memory, {buffers.send, buffers.recv, bytes})) {
      reason =
          "a message of " + std::to_string(bytes) + " bytes that a rank sent to itself did not arrive as it was sent";
    }
  }
  transport->close();
  memory->release();
  return reason;
}

}  // namespace volley
