// Segments that two processes map: the same memory, no name left behind, and a sentence where there is no room.
#include "expect.hpp"
#include "host/shared_segment.hpp"

#include <csignal>
#include <stdexcept>
#include <string>

#include <sys/resource.h>

using namespace volley;

namespace {

constexpr std::size_t megabyte = std::size_t{1} << 20;

void both_see_the_same_memory() {
  SharedSegment mine = SharedSegment::create(megabyte);
  EXPECT(mine.data()[0] == std::byte{0} && mine.data()[megabyte - 1] == std::byte{0});
  const SharedSegment theirs = SharedSegment::open(mine.name(), megabyte);
  EXPECT(theirs.data() != mine.data());
  mine.data()[megabyte - 1] = std::byte{42};
  EXPECT(theirs.data()[megabyte - 1] == std::byte{42});
}

void names_do_not_stay() {
  std::string name;
  {
    SharedSegment segment = SharedSegment::create(megabyte);
    name = segment.name();
    SharedSegment moved = std::move(segment);
    EXPECT(moved.name() == name);
    moved.unlink();
    EXPECT(moved.name().empty() && moved.data() != nullptr);
    EXPECT(test::throws<std::runtime_error>([&] { static_cast<void>(SharedSegment::open(name, megabyte)); }));
    moved = SharedSegment::create(megabyte);
    name = moved.name();
  }
  EXPECT(test::throws<std::runtime_error>([&] { static_cast<void>(SharedSegment::open(name, megabyte)); }));
}

// A limit on the size of files stands in for a small /dev/shm: both are found by reserving the room.
void no_room_is_a_sentence() {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = megabyte;
  setrlimit(RLIMIT_FSIZE, &limit);
  std::string reason;
  try {
    static_cast<void>(SharedSegment::create(2 * megabyte));
  } catch (const std::runtime_error& problem) {
    reason = problem.what();
  }
  EXPECT(reason.find("no room for a segment of 2 MiB") != std::string::npos);
  EXPECT(reason.find("--shm-size") != std::string::npos);
}

}  // namespace

int main() {
  both_see_the_same_memory();
  names_do_not_stay();
  no_room_is_a_sentence();
  return test::finish();
}
