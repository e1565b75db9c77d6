// The JSON value of plans and records: keys keep their order. The library that parses and writes the text is included
// by json.cpp alone: its header would take most of the compile time of every file that has a record.
#pragma once

#include <array>
#include <compare>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace volley {

// The value is of another kind, or has no such key.
class WrongJson : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Json {
  // The value as one of the kinds of JSON.
  template <class Kind, class Variant>
  [[nodiscard]] static auto& as(Variant& value, const char* name) {
    if (auto* found = std::get_if<Kind>(&value)) return *found;
    throw WrongJson(std::string("the value is not ") + name);
  }

 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json(std::nullptr_t = nullptr) noexcept;
  template <class Value>
    requires std::is_arithmetic_v<Value>
  Json(Value value) noexcept : value_(widened(value)) {}
  Json(const char* text);
  Json(std::string text);
  Json(std::string_view text) : Json(std::string(text)) {}
  Json(Array items);
  template <class Item>
  Json(const std::vector<Item>& items) : Json(Array(items.begin(), items.end())) {}
  template <class Item, std::size_t count>
  Json(const std::array<Item, count>& items) : Json(Array(items.begin(), items.end())) {}
  // An object if every item is a list of a text and a value, else an array.
  Json(std::initializer_list<Json> items);
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  [[nodiscard]] static Json array(std::initializer_list<Json> items = {});
  [[nodiscard]] static Json object();

  [[nodiscard]] bool is_null() const { return holds<std::nullptr_t>(); }
  [[nodiscard]] bool is_boolean() const { return holds<bool>(); }
  [[nodiscard]] bool is_number_integer() const { return holds<std::int64_t>() || holds<std::uint64_t>(); }
  [[nodiscard]] bool is_number() const { return is_number_integer() || holds<double>(); }
  [[nodiscard]] bool is_string() const { return holds<std::string>(); }
  [[nodiscard]] bool is_array() const { return holds<Array>(); }
  [[nodiscard]] bool is_object() const { return holds<Object>(); }

  // A boolean, a number, a text, or a list of these. Throws WrongJson if the value is of another kind.
  template <class Value>
  [[nodiscard]] Value get() const {
    if constexpr (std::same_as<Value, bool>) return as<bool>(value_, "true or false");
    else if constexpr (std::same_as<Value, std::string>) return as<std::string>(value_, "a text");
    else if constexpr (!std::is_arithmetic_v<Value>) return list<Value>();
    else if (const auto* whole = std::get_if<std::int64_t>(&value_)) return static_cast<Value>(*whole);
    else if (const auto* natural = std::get_if<std::uint64_t>(&value_)) return static_cast<Value>(*natural);
    else return static_cast<Value>(as<double>(value_, "a number"));
  }

  // The items of an array. Throw WrongJson if the value is none.
  [[nodiscard]] const Array& items() const { return as<Array>(value_, "a list"); }
  [[nodiscard]] Array& items() { return as<Array>(value_, "a list"); }
  [[nodiscard]] auto begin() const { return items().begin(); }
  [[nodiscard]] auto end() const { return items().end(); }
  [[nodiscard]] const Json& operator[](std::size_t i) const { return items().at(i); }
  void push_back(Json item);

  // The keys and values of an object. Throw WrongJson if the value is none.
  [[nodiscard]] const Object& members() const { return as<Object>(value_, "an object"); }
  [[nodiscard]] Object& members() { return as<Object>(value_, "an object"); }
  // The value of a key; null if the object has none.
  [[nodiscard]] const Json* find(const std::string& key) const;
  [[nodiscard]] const Json& at(const std::string& key) const;
  // Adds the key if there is none; makes an object of null.
  [[nodiscard]] Json& operator[](const std::string& key);
  void update(const Json& other);

  // Of an array or object; null has none, any other value one.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const { return size() == 0; }

  // Numbers are compared by their values; what is no number has no order.
  friend bool operator==(const Json& a, const Json& b);
  friend std::partial_ordering operator<=>(const Json& a, const Json& b);

 private:
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;

  template <class Number>
  static auto widened(Number value) {
    if constexpr (std::same_as<Number, bool>) return value;
    else if constexpr (std::floating_point<Number>) return static_cast<double>(value);
    else if constexpr (std::signed_integral<Number>) return static_cast<std::int64_t>(value);
    else return static_cast<std::uint64_t>(value);
  }
  template <class List>
  [[nodiscard]] List list() const {
    List values{};
    if constexpr (requires { values.resize(size()); }) values.resize(size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = (*this)[i].get<typename List::value_type>();
    return values;
  }
  template <class Kind>
  [[nodiscard]] bool holds() const {
    return std::holds_alternative<Kind>(value_);
  }

  Value value_;
};

class NotJson : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The document as one line of text. Bytes that are not UTF-8 (a host name, an environment variable) are replaced.
[[nodiscard]] std::string line_of(const Json& json);

// Parses a text. Throws NotJson, also where it has too many levels.
[[nodiscard]] Json json_from(const std::string& text);

template <class Value>
[[nodiscard]] Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}
[[nodiscard]] inline Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace volley
