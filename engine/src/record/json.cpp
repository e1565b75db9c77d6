#include "json.hpp"

namespace volley {

// Here and nowhere else, because the library's writer and reader take long to compile.
std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }
Json json_from(const std::string& text) { return Json::parse(text); }

}  // namespace volley
