// The JSON type of plans and records: keys keep their order.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "record/facts.hpp"

namespace volley {

using Json = nlohmann::ordered_json;

// A document with too many levels for the recursive writer.
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
