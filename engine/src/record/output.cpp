#include "record/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
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
  std::signal(SIGPIPE, SIG_IGN);  // line() throws, and the whole job ends, not this process alone
  Output output(path);
  if (path == "-") output.keep(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  open_closed_descriptors();
  check_system(dup2(STDERR_FILENO, STDOUT_FILENO) >= 0, "dup2");
  return output;
}

void Output::keep(int descriptor) {
  if (descriptor < 0) {
    throw UnsupportedError("records cannot be written to " + path_ + ": " + std::string(std::strerror(errno)));
  }
  descriptor_ = descriptor;
}

Output::Output(Output&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

Output::~Output() {
  if (descriptor_ >= 0) close(descriptor_);
}

void Output::line(const std::string& text) {
  if (descriptor_ < 0) keep(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  const std::string whole = text + "\n";
  for (std::string_view rest = whole; !rest.empty();) {
    const auto written = write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    check_system(written >= 0, "writing a record");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace volley
