// Messages whose bytes do not lie one after the other as MPI sends them: a matrix of doubles with 8 columns, which lies
// row by row, is sent and received column by column. Each double is 64 bytes after the one before it, as in a halo of
// one column.
//   vector          a datatype of MPI_Type_vector; on host memory and on device pointers. In host memory also halos: a
//                   column or a row of the field, which is sent and received where it lies
//   vector/packed   the rank itself copies the columns to a buffer, which MPI sends; on host memory
#include <cstring>

#include "transport/host_driven.hpp"

namespace volley {
namespace {

constexpr std::size_t columns = 8;
constexpr std::size_t row_bytes = columns * sizeof(double);

class VectorChannel : public MpiChannel {
 public:
  void prepare(const View& view) {
    MPI_Datatype column = MPI_DATATYPE_NULL;
    MPI_Datatype next_to_each_other = MPI_DATATYPE_NULL;
    VOLLEY_MPI(MPI_Type_vector(static_cast<int>(view.bytes / row_bytes), 1, columns, MPI_DOUBLE, &column));
    VOLLEY_MPI(MPI_Type_create_resized(column, 0, sizeof(double), &next_to_each_other));
    VOLLEY_MPI(MPI_Type_free(&column));
    VOLLEY_MPI(MPI_Type_commit(&next_to_each_other));
    large_ = LargeDatatype(next_to_each_other);
    type_ = next_to_each_other;
    elements_ = columns;
  }

  // A row of the field needs no datatype of its own.
  void prepare(const HaloLine& line) {
    type_ = line.point_bytes == sizeof(double) ? MPI_DOUBLE : MPI_FLOAT;
    elements_ = static_cast<int>(line.points);
    if (line.step_bytes == line.point_bytes) return;
    MPI_Datatype column = MPI_DATATYPE_NULL;
    VOLLEY_MPI(MPI_Type_vector(elements_, 1, static_cast<int>(line.step_bytes / line.point_bytes), type_, &column));
    VOLLEY_MPI(MPI_Type_commit(&column));
    large_ = LargeDatatype(column);
    type_ = column;
    elements_ = 1;
  }
};

class PackedChannel : public MpiChannel {
 public:
  // `messages` of each direction are in flight at once.
  void reserve(std::size_t bytes, std::size_t messages) {
    sending_.buffer.resize(messages * bytes);
    receiving_.buffer.resize(messages * bytes);
  }

  [[nodiscard]] static std::uint64_t host_memory_bytes(std::uint64_t bytes, const std::optional<Window>& window) {
    return 2 * bytes * messages_per_count(window);
  }

  void send(const View& view) { MpiChannel::send({pack(view), nullptr, view.bytes}); }
  void recv(const View& view) {
    MpiChannel::recv({nullptr, receiving_.buffer.data(), view.bytes});
    unpack(view, receiving_.buffer.data());
  }
  void start_send(const View& view) {
    MpiChannel::start_send({pack(view), nullptr, view.bytes});
    sending_.used += view.bytes;
  }
  void start_recv(const View& view) {
    MpiChannel::start_recv({nullptr, receiving_.next(), view.bytes});
    receiving_.used += view.bytes;
    arriving_.push_back(view);
  }
  void finish() {
    MpiChannel::finish();
    const std::byte* arrived = receiving_.buffer.data();
    for (const View& view : arriving_) {
      unpack(view, arrived);
      arrived += view.bytes;
    }
    arriving_.clear();
    sending_.used = receiving_.used = 0;
  }

 private:
  struct PackedMessages {
    std::vector<std::byte> buffer;
    std::size_t used = 0;
    [[nodiscard]] std::byte* next() { return buffer.data() + used; }
  };

  // The compiler makes loads and stores of the copies of a double.
  std::byte* pack(const View& view) {
    std::byte* to = sending_.next();
    for (std::size_t column = 0; column < columns; ++column) {
      for (std::size_t at = column * sizeof(double); at < view.bytes; at += row_bytes, to += sizeof(double)) {
        std::memcpy(to, view.send + at, sizeof(double));
      }
    }
    return sending_.next();
  }
  static void unpack(const View& view, const std::byte* from) {
    for (std::size_t column = 0; column < columns; ++column) {
      for (std::size_t at = column * sizeof(double); at < view.bytes; at += row_bytes, from += sizeof(double)) {
        std::memcpy(view.recv + at, from, sizeof(double));
      }
    }
  }

  PackedMessages sending_, receiving_;
  std::vector<View> arriving_;
};

template <class Base>
class ByColumns : public Base {
 public:
  [[nodiscard]] std::string refuses(std::size_t bytes) const override {
    return bytes % row_bytes == 0 && bytes > 0 ? "" : "its messages have whole rows of 64 B";
  }
};

class VectorTransport final : public ByColumns<WithHalos<VectorChannel>> {
  [[nodiscard]] bool open_line(const HaloLine& line) override {
    channel_.prepare(line);
    return true;
  }
};

class PackedTransport final : public ByColumns<HostDriven<PackedChannel>> {
  void prepare(const View& view, const std::optional<Window>& window) override {
    HostDriven::prepare(view, window);
    channel_.reserve(view.bytes, messages_per_count(window));
  }
};

}  // namespace

std::unique_ptr<Transport> make_vector() { return std::make_unique<VectorTransport>(); }
std::unique_ptr<Transport> make_vector_packed() { return std::make_unique<PackedTransport>(); }

}  // namespace volley
