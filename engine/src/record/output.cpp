#include "record/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/errors.hpp"

namespace volley {

namespace {

// Opens every standard descriptor that is closed. Otherwise the records file would get its number, and libraries would
// print into the file.
void open_closed_descriptors() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(number, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDWR));  // takes the lowest that is free
  }
}

}  // namespace

Output Output::claim(const std::string& path) {
  const auto checked = [&](int kept) {
    if (kept < 0)
      throw UnsupportedError("records cannot be written to " + path + ": " + std::string(std::strerror(errno)));
    return kept;
  };
  int kept = path == "-" ? checked(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) : -1;
  open_closed_descriptors();
  if (path != "-") kept = checked(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  check_system(dup2(STDERR_FILENO, STDOUT_FILENO) >= 0, "dup2");
  return {kept, path != "-"};
}

Output::Output(Output&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), replaces_(other.replaces_) {}

Output::~Output() {
  if (descriptor_ >= 0) close(descriptor_);
}

void Output::line(const std::string& text) {
  // Truncate only before the first record: a rejected plan must not delete the records of another run.
  if (std::exchange(replaces_, false)) static_cast<void>(ftruncate(descriptor_, 0));  // a pipe has nothing to cut
  const std::string whole = text + "\n";
  for (std::string_view rest = whole; !rest.empty();) {
    const auto written = write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    check_system(written >= 0, "writing a record");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace volley
