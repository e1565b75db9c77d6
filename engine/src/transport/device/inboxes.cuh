// An inbox in each device's memory that the other device writes to.
#pragma once

#include "transport/device/launches.cuh"
#include "transport/peer_memory.cuh"

namespace volley::device {

class Inboxes : public Launches {
 public:
  using Launches::Launches;

  // Both ranks throw a std::runtime_error if one of them cannot. Collective over the pair.
  void open(const RankGroup& pair, std::uint64_t timeout_ns) {
    Launches::open(pair, timeout_ns);
    gpu::IpcHandle handle{};
    agreed_step(pair, [&] {
      mine_ = gpu::DeviceBuffer(sizeof(Inbox));
      handle = gpu::ipc_handle(mine_.data());
    });
    const gpu::IpcHandle theirs = exchanged_with_peer(handle, pair);
    agreed_step(pair, [&] { theirs_ = mapped_from_peer(theirs, pair); });
  }

  // In a line a number has 16 bits, in those of `device/word` 32. That it overflows is harmless: messages of one size
  // write the same lines, one after the other, so that no line still has the number of 2^16 messages ago. A window of
  // `device/word` may leave lines out, but not for 2^32 messages. Collective over the pair.
  void reset() { Launches::reset(mine_.data(), sizeof(Inbox)); }

  // The other rank closes its mapping of the inbox before this rank frees the inbox. Collective over the pair.
  void close() {
    theirs_ = {};
    VOLLEY_MPI(MPI_Barrier(control()));
    mine_ = {};
    Launches::close();
  }

  [[nodiscard]] Inbox* mine() const { return reinterpret_cast<Inbox*>(mine_.data()); }
  [[nodiscard]] Inbox* theirs() const { return reinterpret_cast<Inbox*>(theirs_.data()); }
  [[nodiscard]] PeerWait wait() const { return {report(), &mine()->gave_up, &theirs()->gave_up, timeout_ns()}; }

  [[nodiscard]] Launch launch_of(const View& view, std::uint64_t count) const {
    Launch launch = Launches::launch_of(view, count);
    launch.inbox = mine();
    launch.inbox_there = theirs();
    launch.wait = wait();
    return launch;
  }

 private:
  gpu::DeviceBuffer mine_;
  gpu::IpcMapping theirs_;
};

}  // namespace volley::device
