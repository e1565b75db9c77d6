// Lists and numbers in text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace volley {

// The items one after the other, with `separator` between them.
[[nodiscard]] std::string joined(const std::vector<std::string>& items, std::string_view separator = ", ");

// The parts of `text` between separators; an empty text has no parts.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

// The number that `text` consists of, e.g. "12"; none if it is anything else, or negative.
[[nodiscard]] std::optional<int> parse_number(std::string_view text);

}  // namespace volley
