// Messages through MPI, from and to the memory that the view points at.
#pragma once

#include <mpi.h>

#include <limits>
#include <vector>

#include "mpi/check.hpp"
#include "mpi/large_datatype.hpp"
#include "transport/transport.hpp"

namespace volley {

class MpiChannel {
 public:
  void open(const RankGroup& pair, const Buffers&) {
    comm_ = pair.data.get();
    peer_ = pair.peer();
    alone_ = pair.size() == 1;
  }

  void prepare(const View& view) {
    const bool large = view.bytes > static_cast<std::size_t>(std::numeric_limits<int>::max());
    if (large) large_ = large_datatype(view.bytes);
    count_ = large ? 1 : static_cast<int>(view.bytes);
    type_ = large ? large_.get() : MPI_BYTE;
  }

  void close() {
    large_ = {};
    requests_ = {};
  }

  void send(const View& view) { VOLLEY_MPI(MPI_Send(view.send, count_, type_, peer_, message_tag, comm_)); }

  void recv(const View& view) {
    VOLLEY_MPI(MPI_Recv(view.recv, count_, type_, peer_, message_tag, comm_, MPI_STATUS_IGNORE));
  }

  void start_send(const View& view) {
    VOLLEY_MPI(MPI_Isend(view.send, count_, type_, peer_, message_tag, comm_, &requests_.emplace_back()));
  }

  void start_recv(const View& view) {
    VOLLEY_MPI(MPI_Irecv(view.recv, count_, type_, peer_, message_tag, comm_, &requests_.emplace_back()));
  }

  void finish() {
    VOLLEY_MPI(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE));
    requests_.clear();
  }

  // MPI moves large messages only during its calls.
  void progress() {
    int done = 0;
    VOLLEY_MPI(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE));
    if (done != 0) requests_.clear();
  }

  // A rank that sends to itself needs no acknowledgement, and MPI_Send would wait for a receive that comes only later.
  void acknowledge() {
    if (alone_) return;
    VOLLEY_MPI(MPI_Send(&acknowledgement_, 1, MPI_INT, peer_, acknowledgement_tag, comm_));
  }

  void await_acknowledgement() {
    if (alone_) return;
    VOLLEY_MPI(MPI_Recv(&acknowledgement_, 1, MPI_INT, peer_, acknowledgement_tag, comm_, MPI_STATUS_IGNORE));
  }

 protected:  // for channels that derive from this one
  static constexpr int message_tag = 10;
  static constexpr int acknowledgement_tag = 20;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int peer_ = 0;
  bool alone_ = false;  // this rank is its own peer
  int count_ = 0;
  MPI_Datatype type_ = MPI_BYTE;
  LargeDatatype large_;
  int acknowledgement_ = 0;
  std::vector<MPI_Request> requests_;
};

}  // namespace volley
