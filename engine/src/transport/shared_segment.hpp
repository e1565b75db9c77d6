// Memory that two processes of one node map: a POSIX shared memory object that unmaps and removes itself.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <random>
#include <sstream>
#include <system_error>

#include "group/agreement.hpp"
#include "messages/memory.hpp"

namespace volley {

// Random, because containers that share /dev/shm may have processes with equal numbers.
inline std::string random_name() {
  std::random_device random;
  std::ostringstream name;
  name << "/volley-" << std::hex << random() << random();
  return name.str();
}

// posix_fallocate returns its error instead of setting errno.
inline int reserve_file(int descriptor, std::size_t bytes) {
  int status = EINTR;
  while (status == EINTR) status = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  return status;
}

class SharedSegment {
 public:
  SharedSegment() = default;

  // Creates a segment with a unique name, filled with zeros. Reserves all its memory, and throws std::runtime_error if
  // /dev/shm is too small: without that the first access would be a bus error.
  [[nodiscard]] static SharedSegment create(std::size_t bytes) {
    SharedSegment segment;
    const std::string name = random_name();
    const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR);
    check_system(file >= 0, "shm_open of a new segment");
    segment.name_.reset(new std::string(name));  // from here on the destructor removes it
    if (const int status = reserve_file(file, bytes); status != 0) {
      close(file);
      std::ostringstream reason;
      reason << "/dev/shm has no room for a segment of " << (bytes >> 20) << " MiB ("
             << std::generic_category().message(status)
             << "); make it larger (a container: --shm-size=1g; otherwise: mount -o remount,size=1g /dev/shm)";
      throw std::runtime_error(reason.str());
    }
    segment.mapping_ = Mapping(bytes, file);
    return segment;
  }

  [[nodiscard]] static SharedSegment open(const std::string& name, std::size_t bytes) {
    SharedSegment segment;
    const int file = shm_open(name.c_str(), O_RDWR, 0);
    check_system(file >= 0, "shm_open of the other rank's segment");
    segment.mapping_ = Mapping(bytes, file);
    return segment;
  }

  // Removes the name. The creator does this when all processes have mapped the segment: the system then frees the
  // memory when the last of them ends, even if it crashes.
  void unlink() noexcept { name_.reset(); }

  [[nodiscard]] std::byte* data() const noexcept { return mapping_.data(); }
  // Empty when it is removed, and if another process created the segment.
  [[nodiscard]] std::string name() const { return name_ ? *name_ : ""; }

 private:
  struct Unlink {
    void operator()(const std::string* name) const noexcept {
      shm_unlink(name->c_str());
      delete name;
    }
  };
  std::unique_ptr<const std::string, Unlink> name_;
  Mapping mapping_;
};

// A segment of host memory that both ranks of a pair map. The first rank creates the segment and calls `initialise`
// with it, the second maps it; then the segment's name is removed. Both throw a std::runtime_error if one of them
// fails. Collective over the pair.
[[nodiscard]] inline SharedSegment make_pair_segment(const RankGroup& pair, std::size_t bytes,
                                                     const std::function<void(std::byte*)>& initialise) {
  SharedSegment segment;
  agreed_step(pair, [&] {
    if (!pair.leads()) return;
    segment = SharedSegment::create(bytes);
    initialise(segment.data());
  });
  const std::string name = mpi::broadcast(segment.name(), 0, pair.control.get());
  agreed_step(pair, [&] {
    if (!pair.leads()) segment = SharedSegment::open(name, bytes);
  });
  segment.unlink();
  return segment;
}

}  // namespace volley
