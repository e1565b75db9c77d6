// The JSON type of the seam: keys stay in the order in which they are written.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "record/facts.hpp"

namespace volley {

using Json = nlohmann::ordered_json;

// A document that nobody writes by hand and that would take too much stack to write again.
class TooDeep : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One line of text. Bytes that are not UTF-8 (a host name, an environment variable) are replaced, never refused.
[[nodiscard]] std::string line_of(const Json& json);

// The document in a text. Throws Json::exception where there is none, and TooDeep.
[[nodiscard]] Json json_from(const std::string& text);

[[nodiscard]] Json to_json(const Facts& facts);

}  // namespace volley
