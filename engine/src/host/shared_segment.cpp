#include "host/shared_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <sstream>
#include <system_error>

#include "base/errors.hpp"

namespace volley {
namespace {

// Random, because containers that share /dev/shm may have processes with equal numbers.
std::string random_name() {
  std::random_device random;
  std::ostringstream name;
  name << "/volley-" << std::hex << random() << random();
  return name.str();
}

// posix_fallocate returns its error instead of setting errno.
int reserve(int descriptor, std::size_t bytes) {
  int status = EINTR;
  while (status == EINTR) status = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  return status;
}

}  // namespace

SharedSegment SharedSegment::create(std::size_t bytes) {
  SharedSegment segment;
  const std::string name = random_name();
  const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR);
  check_system(file >= 0, "shm_open of a new segment");
  segment.name_.reset(new std::string(name));  // from here on the destructor removes it
  if (const int status = reserve(file, bytes); status != 0) {
    close(file);
    std::ostringstream reason;
    reason << "/dev/shm has no room for a segment of " << (bytes >> 20) << " MiB ("
           << std::generic_category().message(status)
           << "); make it larger (a container: --shm-size=1g; otherwise: mount -o remount,size=1g /dev/shm)";
    throw std::runtime_error(reason.str());
  }
  segment.mapping_ = Mapping(file, bytes);
  return segment;
}

SharedSegment SharedSegment::open(const std::string& name, std::size_t bytes) {
  SharedSegment segment;
  const int file = shm_open(name.c_str(), O_RDWR, 0);
  check_system(file >= 0, "shm_open of the other rank's segment");
  segment.mapping_ = Mapping(file, bytes);
  return segment;
}

void SharedSegment::Unlink::operator()(const std::string* name) const noexcept {
  shm_unlink(name->c_str());
  delete name;
}

}  // namespace volley
