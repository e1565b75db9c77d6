// The JSON that the engine writes. A value is kept as the text that it becomes, so that a list of samples is written
// once; an object keeps its keys in order, and what a key has can be replaced. Reading is another matter: see plan.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace volley {

class Json {
 public:
  using Member = std::pair<std::string, Json>;

  Json(std::nullptr_t = nullptr);
  Json(bool value);
  Json(std::integral auto value) : text_(std::to_string(value)) {}
  // The shortest text that reads as the same number; null if it is not finite.
  Json(double value);
  // Bytes that are not UTF-8 (a host name, an environment variable) are replaced.
  Json(std::string_view text);
  Json(const std::string& text);
  Json(const char* text);
  // Not inline: a record has dozens of values, each copied and destroyed, and the compiler would spend its time on
  // them.
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();
  template <class Item>
  Json(const std::vector<Item>& items) : Json(list(items)) {}
  template <class Item, std::size_t count>
  Json(const std::array<Item, count>& items) : Json(list(items)) {}
  // An object.
  Json(std::initializer_list<Member> members);

  [[nodiscard]] static Json array() { return written("[]"); }
  [[nodiscard]] static Json object() { return Json(std::initializer_list<Member>{}); }
  // A value that is JSON already.
  [[nodiscard]] static Json written(std::string text);

  // Of an array.
  void push_back(const Json& item);

  // Of an object: the value of a key. The first adds the key if there is none; the second throws std::out_of_range.
  [[nodiscard]] Json& operator[](std::string_view key);
  [[nodiscard]] const Json& at(std::string_view key) const;
  void update(const Json& other);

  // The value as one line.
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Json& a, const Json& b) { return a.text() == b.text(); }

 private:
  [[nodiscard]] static Json list(const auto& items) {
    Json made = array();
    for (const auto& item : items) made.push_back(item);
    return made;
  }

  std::string text_;             // empty: an object
  std::vector<Member> members_;  // of an object
};

template <class Value>
[[nodiscard]] Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}
[[nodiscard]] inline Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace volley
