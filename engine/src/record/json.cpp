#include "record/json.hpp"

#include <variant>

namespace volley {

namespace {

// Several functions as one: the argument decides which is called.
template <class... Functions>
struct Either : Functions... {
  using Functions::operator()...;
};

}  // namespace

// Only this file uses the library's writer and parser, because they take long to compile.
std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json json_from(const std::string& text) {
  // The writer is recursive: without a limit a document could exhaust the stack.
  constexpr int deepest = 100;
  return Json::parse(text, [](int depth, Json::parse_event_t, const Json&) {
    if (depth > deepest) throw TooDeep("nested deeper than " + std::to_string(deepest) + " levels");
    return true;
  });
}

Json to_json(const Facts& facts) {
  Json object = Json::object();
  const auto plain = [](const auto& value) { return Json(value); };
  const auto rows = [](const std::vector<Facts>& each) {
    Json list = Json::array();
    for (const auto& row : each) list.push_back(to_json(row));
    return list;
  };
  for (const auto& [name, value] : facts) object[name] = std::visit(Either{plain, rows}, value);
  return object;
}

}  // namespace volley
