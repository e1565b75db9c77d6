#include "record/records.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <limits>

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

void Records::write(const Json& record) {
  if (output_ != nullptr) output_->line(record.text());
}

void Records::write_lines(const std::string& lines) {
  if (output_ != nullptr && !lines.empty()) output_->line(lines);
}

void Records::write_point(const Json& record) {
  add_points(record.at("status"));
  write(record);
}

void Records::add_points(const Json& status, int points) {
  (status == "ok" ? ok_ : status == "failed" ? failed_ : skipped_) += points;
}

void Records::end(const std::string& error, const Json& usage) {
  write({{"record", "end"},
         {"version", record_version},
         {"status", failed_ > 0 || !error.empty() ? "failed" : "complete"},
         {"reason", or_null(error)},
         {"points_ok", ok_},
         {"points_failed", failed_},
         {"points_skipped", skipped_},
         {"elapsed_s", elapsed_s()},
         {"usage", usage}});
}

void Records::end_with_error(const std::string& error) noexcept {
  try {
    end(error);
  } catch (const std::exception&) {
    // The reader is gone or the disk is full: without a last record the file is shown as incomplete.
  }
}

double budget_left_s(const Plan& plan, const Records& records) {
  return plan.budget_s ? *plan.budget_s - records.elapsed_s() : std::numeric_limits<double>::infinity();
}

}  // namespace volley
