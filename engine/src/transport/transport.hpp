// A transport: one way for the bytes of a message to get from a buffer of one rank to a buffer of another.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "gpu/gpu.hpp"
#include "group/context.hpp"
#include "host/memory.hpp"
#include "measure/driver.hpp"
#include "record/facts.hpp"

namespace volley {

// Moves messages between two ranks and, where its registry entry says so, halos between two neighbours. Both ranks make
// every call but `unavailable`, `host_driven`, `staged_through_host` and `facts`.
class Transport : public Driver {
 public:
  // Why this rank cannot use the transport; empty when it can. Must not communicate: both answers are compared.
  [[nodiscard]] virtual std::string unavailable(const Context& context, const RankGroup& pair) = 0;

  // Makes ready for messages within `buffers` of up to `capacity` bytes. Throws a std::exception whose sentence says
  // why this rank cannot; neither rank then waits for the other, and both call close().
  virtual void open(const Context& context, const RankGroup& pair, const Buffers& buffers, std::size_t capacity) = 0;

  // Lets go of everything, also of what a failed open() made; a mapping of the other rank's memory is closed before
  // that rank frees it.
  virtual void close() = 0;

  // What the transport settled on, for its record.
  [[nodiscard]] virtual Facts facts() const { return {}; }

  // --- halos ---
  //
  // Both ranks make these calls with views of one size at the same offsets in the buffers. A halo in device memory goes
  // this way:
  //   leave(view, cuda_stream)  behind the kernel that wrote view.send
  //   start(view), finish() by the host, when the cuda_stream has come that far; left out where `host_driven` is false
  //   arrive(view, cuda_stream) in front of the kernel that reads view.recv
  // A halo in host memory needs start() and finish() only.
  //
  // Two places of the buffers take turns. A rank sends halo n + 2 into the place of halo n only after it has received
  // halo n + 1, and the neighbour sent that after it had read halo n: nobody overwrites what is still being read.

  // Makes ready for halos as long as this view, anywhere in the first `capacity` bytes of the buffers. After open().
  virtual void open_halo(const View&) { throw std::logic_error("this transport cannot exchange halos"); }
  // Whether start() and finish() move something.
  [[nodiscard]] virtual bool host_driven() const { return true; }
  // Whether what leave() and arrive() enqueue are copies to and from messages in host memory.
  [[nodiscard]] virtual bool staged_through_host() const { return false; }

  virtual void leave(const View&, gpu::StreamHandle) {}
  // Puts this rank's halo in flight and expects the neighbour's.
  virtual void start(const View&) {}
  // Lets a library move the bytes that needs calls for it. Throws when something failed that no call has returned.
  virtual void progress() {}
  // Returns when the neighbour's halo is usable and this rank's may be overwritten.
  virtual void finish() {}
  virtual void arrive(const View&, gpu::StreamHandle) {}
};

}  // namespace volley
