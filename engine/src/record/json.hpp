// The JSON type of the seam: keys stay in the order in which they are written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace volley {

using Json = nlohmann::ordered_json;

// One line of text. Bytes that are not UTF-8 (a host name, an environment variable) are replaced, never refused.
[[nodiscard]] std::string line_of(const Json& json);

// The document in a text. Throws Json::exception where there is none.
[[nodiscard]] Json json_from(const std::string& text);

}  // namespace volley
