// Segments that two processes map: the same memory, and no name left behind.
#include "expect.hpp"
#include "transport/shared_segment.hpp"

#include <stdexcept>
#include <string>

using namespace volley;

namespace {

constexpr std::size_t megabyte = std::size_t{1} << 20;

TEST(both_see_the_same_memory) {
  SharedSegment mine = SharedSegment::create(megabyte);
  EXPECT(mine.data()[0] == std::byte{0} && mine.data()[megabyte - 1] == std::byte{0});
  const SharedSegment theirs = SharedSegment::open(mine.name(), megabyte);
  EXPECT(theirs.data() != mine.data());
  mine.data()[megabyte - 1] = std::byte{42};
  EXPECT(theirs.data()[megabyte - 1] == std::byte{42});
}

TEST(names_do_not_stay) {
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

}  // namespace

int main() { return test::run_all(); }
