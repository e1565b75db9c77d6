#include "record/records.hpp"

#include <exception>
#include <sstream>

namespace volley {

void Records::write(const Json& record) {
  if (output_ != nullptr) output_->line(line_of(record));
}

void Records::write_point(const Json& record) {
  count(record.at("status").get<std::string>());
  write(record);
}

void Records::count(const std::string& status) {
  (status == "ok" ? ok_ : status == "failed" ? failed_ : skipped_) += 1;
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

bool budget_used(const Plan& plan, const Records& records) {
  return plan.budget_s && records.elapsed_s() > *plan.budget_s;
}

std::string budget_reason(const Plan& plan) {
  std::ostringstream reason;
  reason << "the time budget of " << plan.budget_s.value_or(0) << " s was used up";
  return reason.str();
}

}  // namespace volley
