#include "record/json.hpp"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace volley {
namespace {

// The library escapes what is not plain.
std::string in_quotes(std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\'; });
  if (plain) return '"' + std::string(text) + '"';
  using Library = nlohmann::ordered_json;
  return Library(text).dump(-1, ' ', false, Library::error_handler_t::replace);
}

}  // namespace

Json::Json(std::nullptr_t) : text_("null") {}
Json::Json(bool value) : text_(value ? "true" : "false") {}
Json::Json(const std::string& text) : Json(std::string_view(text)) {}
Json::Json(const char* text) : Json(std::string_view(text)) {}
Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

Json::Json(double value) : text_("null") {
  if (!std::isfinite(value)) return;
  std::array<char, 32> digits{};
  text_.assign(digits.data(), std::to_chars(digits.begin(), digits.end(), value).ptr);
  if (text_.find_first_of(".e") == std::string::npos) text_ += ".0";  // readers see that it is no whole number
}

Json::Json(std::string_view text) : text_(in_quotes(text)) {}

Json::Json(std::initializer_list<Member> members) : members_(members) {}

Json Json::written(std::string text) {
  Json made;
  made.text_ = std::move(text);
  return made;
}

void Json::push_back(const Json& item) {
  text_.pop_back();
  if (text_.size() > 1) text_ += ',';
  text_ += item.text();
  text_ += ']';
}

Json& Json::operator[](std::string_view key) {
  const auto found = std::ranges::find(members_, key, &Member::first);
  return found != members_.end() ? found->second : members_.emplace_back(key, nullptr).second;
}

const Json& Json::at(std::string_view key) const {
  const auto found = std::ranges::find(members_, key, &Member::first);
  if (found == members_.end()) throw std::out_of_range("there is no key `" + std::string(key) + "`");
  return found->second;
}

void Json::update(const Json& other) {
  for (const auto& [key, value] : other.members_) (*this)[key] = value;
}

std::string Json::text() const {
  if (!text_.empty()) return text_;
  std::string all;
  for (const auto& [key, value] : members_) {
    all += all.empty() ? "{" : ",";
    all += in_quotes(key) + ':' + value.text();
  }
  return (all.empty() ? "{" : all) + '}';
}

}  // namespace volley
