#include "json.hpp"

namespace volley {

// Here and nowhere else, because the library's writer and reader take long to compile.
std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json json_from(const std::string& text) {
  // What writes it calls itself, level by level.
  constexpr int deepest = 100;
  return Json::parse(text, [](int depth, Json::parse_event_t, const Json&) {
    if (depth > deepest) throw TooDeep("nested deeper than " + std::to_string(deepest) + " levels");
    return true;
  });
}

}  // namespace volley
