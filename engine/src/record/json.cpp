#include "record/json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace volley {
namespace {

using Library = nlohmann::ordered_json;

bool is_member(const Json& item) { return item.is_array() && item.size() == 2 && item[0].is_string(); }

Library in_library(const Json& json) {
  if (json.is_object()) {
    Library object = Library::object();
    for (const auto& [key, value] : json.members()) object[key] = in_library(value);
    return object;
  }
  if (json.is_array()) {
    Library array = Library::array();
    for (const auto& item : json) array.push_back(in_library(item));
    return array;
  }
  if (json.is_string()) return json.get<std::string>();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_null()) return nullptr;
  if (!json.is_number_integer()) return json.get<double>();
  return json < 0 ? Library(json.get<std::int64_t>()) : Library(json.get<std::uint64_t>());
}

Json from_library(const Library& library) {
  switch (library.type()) {
    case Library::value_t::object: {
      Json object = Json::object();
      for (const auto& [key, value] : library.items()) object[key] = from_library(value);
      return object;
    }
    case Library::value_t::array: {
      Json array = Json::array();
      for (const auto& item : library) array.push_back(from_library(item));
      return array;
    }
    case Library::value_t::string: return library.get<std::string>();
    case Library::value_t::boolean: return library.get<bool>();
    case Library::value_t::number_integer: return library.get<std::int64_t>();
    case Library::value_t::number_unsigned: return library.get<std::uint64_t>();
    case Library::value_t::number_float: return library.get<double>();
    default: return nullptr;
  }
}

}  // namespace

Json::Json(std::nullptr_t) noexcept : value_(nullptr) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(Array items) : value_(std::move(items)) {}
Json::Json(std::initializer_list<Json> items) {
  if (!std::ranges::all_of(items, is_member)) {
    value_ = Array(items);
    return;
  }
  *this = object();
  for (const auto& item : items) (*this)[item[0].get<std::string>()] = item[1];
}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json Json::array(std::initializer_list<Json> items) { return Json(Array(items)); }

Json Json::object() {
  Json made;
  made.value_ = Object{};
  return made;
}

void Json::push_back(Json item) {
  if (is_null()) *this = array();
  items().push_back(std::move(item));
}

const Json* Json::find(const std::string& key) const {
  const auto found = std::ranges::find(members(), key, &Object::value_type::first);
  return found == members().end() ? nullptr : &found->second;
}

const Json& Json::at(const std::string& key) const {
  if (const Json* found = find(key)) return *found;
  throw WrongJson("there is no key `" + key + "`");
}

Json& Json::operator[](const std::string& key) {
  if (is_null()) *this = object();
  if (const Json* found = find(key)) return const_cast<Json&>(*found);
  return members().emplace_back(key, nullptr).second;
}

void Json::update(const Json& other) {
  for (const auto& [key, value] : other.members()) (*this)[key] = value;
}

std::size_t Json::size() const {
  return is_array() ? items().size() : is_object() ? members().size() : is_null() ? 0 : 1;
}

bool operator==(const Json& a, const Json& b) {
  return a.is_number() && b.is_number() ? std::is_eq(a <=> b) : a.value_ == b.value_;
}

std::partial_ordering operator<=>(const Json& a, const Json& b) {
  if (!a.is_number() || !b.is_number()) return std::partial_ordering::unordered;
  if (!a.is_number_integer() || !b.is_number_integer()) return a.get<double>() <=> b.get<double>();
  const auto negative = [](const Json& json) { return json.holds<std::int64_t>() && json.get<std::int64_t>() < 0; };
  if (negative(a) || negative(b))
    return negative(a) && negative(b) ? a.get<std::int64_t>() <=> b.get<std::int64_t>() : negative(b) <=> negative(a);
  return a.get<std::uint64_t>() <=> b.get<std::uint64_t>();
}

std::string line_of(const Json& json) {
  return in_library(json).dump(-1, ' ', false, Library::error_handler_t::replace);
}

Json json_from(const std::string& text) {
  // The writer is recursive: without a limit a document could exhaust the stack.
  constexpr int deepest = 100;
  const auto shallow = [](int depth, Library::parse_event_t, const Library&) {
    if (depth > deepest) throw NotJson("nested deeper than " + std::to_string(deepest) + " levels");
    return true;
  };
  try {
    return from_library(Library::parse(text, shallow));
  } catch (const Library::exception& error) {
    throw NotJson("not a JSON document: " + std::string(error.what()));
  }
}

}  // namespace volley
