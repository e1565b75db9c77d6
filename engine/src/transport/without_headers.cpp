// Stands for a transport whose kernels need the headers of another library, where the engine was built without them.
#include "transport/transport.hpp"

namespace volley {

namespace {

class WithoutHeaders final : public Transport {
 public:
  explicit WithoutHeaders(const char* needed)
      : reason_(std::string("this engine was built without ") + needed + "; build it again with them") {}

  std::string unavailable(const Context&, const RankGroup&) override { return reason_; }
  void open(const RankGroup&, const Buffers&) override { throw std::logic_error(reason_); }
  void close() override {}
  void prepare(const View&) override {}
  void round_trips(const View&, std::uint64_t) override {}
  void windows(const View&, std::uint64_t, const Window&) override {}

 private:
  std::string reason_;
};

}  // namespace

std::unique_ptr<Transport> make_without_nccl_headers() {
  return std::make_unique<WithoutHeaders>(
      "the headers of NCCL's device API (NCCL 2.28 or newer, from NCCL_HOME or the wheel nvidia-nccl-cu13)");
}

std::unique_ptr<Transport> make_without_nvshmem_headers() {
  return std::make_unique<WithoutHeaders>(
      "the headers of NVSHMEM (3.4, from NVSHMEM_HOME or the wheel nvidia-nvshmem-cu13)");
}

}  // namespace volley
