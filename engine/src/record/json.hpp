// The JSON type of plans and records: keys keep their order.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "record/facts.hpp"

namespace volley {

using Json = nlohmann::ordered_json;

// The document has too many levels.
class TooDeep : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The document as one line of text. Bytes that are not UTF-8 (a host name, an environment variable) are replaced.
[[nodiscard]] std::string line_of(const Json& json);

// Parses a text. Throws Json::exception if it is not JSON, and TooDeep.
[[nodiscard]] Json json_from(const std::string& text);

[[nodiscard]] Json to_json(const Facts& facts);

// A value, or null where there is none.
template <class Value>
[[nodiscard]] Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}
// A text, or null where it is empty.
[[nodiscard]] inline Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace volley
