// `host/put`, `aware/put`: MPI_Put, MPI_Win_flush, a notification. `host/put/blocking`, `aware/put/blocking`: the same,
// and each message of a window is completed before the next one starts.
#include "transport/host_driven.hpp"
#include "transport/one_sided/put_channel.hpp"

namespace volley {

namespace {

class BlockingPutChannel final : public one_sided::PutChannel {
 public:
  void start_send(const View& view) {
    PutChannel::start_send(view);
    complete();
  }
};

}  // namespace

std::unique_ptr<Transport> make_put() { return std::make_unique<HostDriven<one_sided::PutChannel>>(); }
std::unique_ptr<Transport> make_put_blocking() { return std::make_unique<HostDriven<BlockingPutChannel>>(); }

}  // namespace volley
