// A build without CUDA: there are no GPUs to make a matrix of.
#include "../check.hpp"
#include "machine.hpp"

namespace volley::node {

void ask_for_few_queues() {}

void wake(int) {}

std::unique_ptr<Machine> make_machine(const std::vector<int>&, std::uint64_t, std::chrono::duration<double>) {
  throw Inability("this engine was built without CUDA");
}

}  // namespace volley::node
