// The plan says what to measure. src/volley/records/plan.py defines it, and schema/plan.schema.json is generated from
// there. This file has the part that all benchmarks share; each benchmark reads its own part, `options`.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <sstream>

#include "base/text.hpp"
#include "record/json.hpp"

namespace volley {

inline constexpr int plan_version = 2;

struct Sampling {
  bool fixed = false;                 // one batch of `iterations` after `warmup`, as the tutorial does
  double ci = 0.01;                   // adaptive: half width of the median's confidence interval, relative
  double point_time_s = 1.0;          // adaptive: a point ends after this long, at the end of a round
  std::optional<double> size_time_s;  // for one message size; a transport that exceeds its part skips it
  int min_visits = 3;
  std::uint64_t warmup = 5;
  std::uint64_t iterations = 50;
  bool tail = false;  // adaptive: k = 1
};

// Why a point is skipped for which the budget has no time.
inline constexpr const char* budget_reason = "the time budget was too short";

struct Plan {
  std::string benchmark;
  int world_size = 2;
  std::vector<std::string> transports;
  std::map<std::string, std::string> excluded;  // transports that must not be opened, each with the reason
  Sampling sampling;
  bool verify = true;
  bool share_device = false;
  std::optional<double> budget_s;
  double watchdog_s = 60.0;
  std::string document;  // the plan's text, for the run record
};

// Reads one JSON object of a plan. Collects all errors, each with its place. An absent key leaves its target as it is,
// and so does null where the target is optional.
class PlanObject {
 public:
  using Errors = std::vector<std::string>;

  // The bounds of counts and times; src/volley/document.py has the same.
  static constexpr int largest_count = std::numeric_limits<std::int32_t>::max();
  static constexpr double longest_s = 1e9;

  PlanObject(const Json& node, std::string path, Errors& errors)
      : node_(node), path_(std::move(path)), errors_(errors) {
    if (!node_.is_object()) complain("", "expected an object");
  }

  void boolean(const char* key, bool& target) {
    take<bool>(key, target, "true or false", [](const Json& value) { return value.is_boolean(); });
  }

  // A number above 0 and at most `most`.
  template <class Target>
  void positive(const char* key, Target& target, double most = std::numeric_limits<double>::infinity()) {
    std::ostringstream fitting;
    fitting << "a number above 0";
    if (most != std::numeric_limits<double>::infinity()) fitting << " and at most " << most;
    take<double>(key, target, fitting.str(),
                 [&](const Json& value) { return value.is_number() && value > 0 && value <= most; });
  }
  template <class Target>
  void seconds(const char* key, Target& target) {
    positive(key, target, longest_s);
  }

  template <class Target, class Number>
  void integer(const char* key, Target& target, Number least, Number most = largest_count) {
    take<Number>(key, target, "a whole number from " + std::to_string(least) + " to " + std::to_string(most),
                 [&](const Json& value) { return is_integer(value, least, most); });
  }

  // A list of two whole numbers. The key must be present.
  template <class Number>
  void two(const char* key, std::array<Number, 2>& target, Number least) {
    const std::string two_numbers = "two whole numbers of at least " + std::to_string(least);
    const auto fits = [&](const Json& value) { return is_integer(value, least, Number{largest_count}); };
    static_cast<void>(required(key, two_numbers));
    take<std::array<Number, 2>>(key, target, two_numbers, [&](const Json& value) {
      return value.is_array() && value.size() == 2 && fits(value[0]) && fits(value[1]);
    });
  }

  template <class Value>
  void choice(const char* key, Value& target, const std::vector<std::pair<std::string, Value>>& choices) {
    const Json* value = find(key);
    if (value == nullptr) return;
    std::vector<std::string> names;
    for (const auto& [name, meant] : choices) {
      names.push_back("`" + name + "`");
      if (*value != name) continue;
      target = meant;
      return;
    }
    expected(key, "one of " + joined(names), *value);
  }

  // A list of items that all fit; `fitting` describes such an item.
  template <class Item, class Fits>
  void list(const char* key, std::vector<Item>& target, const char* fitting, const Fits& fits) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array()) return expected(key, "a list", *value);
    for (std::size_t i = 0; i < value->size(); ++i) {
      const Json& item = (*value)[i];
      if (fits(item)) target.push_back(item.get<Item>());
      else expected(place(key, i), fitting, item);
    }
  }
  void names(const char* key, std::vector<std::string>& target, const char* fitting) {
    list(key, target, fitting, [](const Json& value) { return value.is_string(); });
  }
  void integers(const char* key, std::vector<int>& target, const char* fitting, int least) {
    list(key, target, fitting,
         [least](const Json& value) { return is_integer(value, least, std::numeric_limits<int>::max()); });
  }
  void sizes(const char* key, std::vector<std::uint64_t>& target, std::int64_t least = 1) {
    const std::string fitting = "a whole number of bytes of at least " + std::to_string(least);
    list(key, target, fitting.c_str(),
         [least](const Json& value) { return is_integer(value, least, std::numeric_limits<std::int64_t>::max()); });
  }
  void some_sizes(const char* key, std::vector<std::uint64_t>& target, std::int64_t least = 1) {
    sizes(key, target, least);
    if (target.empty()) complain(key, "expected at least one size");
  }
  void texts(const char* key, std::map<std::string, std::string>& target) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_object()) return expected(key, "an object", *value);
    for (const auto& [name, text] : value->members()) {
      if (text.is_string()) target[name] = text.get<std::string>();
      else expected(std::string(key) + "." + name, "a text", text);
    }
  }
  void any_object(const char* key) {
    const Json* value = find(key);
    if (value != nullptr && !value->is_object()) expected(key, "an object", *value);
  }

  // Calls `read` with the object of that key, or with an empty one if the key is absent.
  template <class Read>
  void object(const char* key, Read read) {
    static const Json nothing = Json::object();
    const Json* value = find(key);
    PlanObject inner(value == nullptr ? nothing : *value, path_ + "." + key, errors_);
    read(inner);
    inner.finish();
  }

  // Returns the value of the key. Complains and returns null if the key is absent.
  const Json* required(const char* key, const std::string& fitting) {
    const Json* value = find(key);
    if (value == nullptr && node_.is_object()) complain(key, "missing: expected " + fitting);
    return value;
  }
  // Complains about every key that was not read.
  void finish() {
    if (!node_.is_object()) return;
    for (const auto& [key, value] : node_.members()) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) complain(key, "unknown key");
    }
  }

  void complain(const std::string& key, const std::string& what) {
    errors_.push_back("plan: " + path_ + (key.empty() ? "" : "." + key) + ": " + what);
  }
  void expected(const std::string& key, const std::string& what, const Json& found) {
    complain(key, "expected " + what + ", found " + shown(found));
  }
  // The same for a key at the top of the plan.
  void complain_of_plan(const std::string& key, const std::string& what) {
    errors_.push_back("plan: $." + key + ": " + what);
  }
  // "key[3]".
  [[nodiscard]] static std::string place(const std::string& key, std::size_t i) {
    return key + "[" + std::to_string(i) + "]";
  }

 private:
  template <class Number>
  [[nodiscard]] static bool is_integer(const Json& value, Number least, Number most) {
    return value.is_number_integer() && value >= least && value <= most;
  }
  template <class Value, class Target, class Fits>
  void take(const char* key, Target& target, const std::string& fitting, const Fits& fits) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if constexpr (requires { target.has_value(); }) {
      if (value->is_null()) return;
    }
    if (fits(*value)) target = value->get<Value>();
    else expected(key, fitting, *value);
  }
  static std::string shown(const Json& value) {
    std::string text = line_of(value);
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    return text;
  }
  const Json* find(const char* key) {
    known_.emplace_back(key);
    return node_.is_object() ? node_.find(key) : nullptr;
  }
  const Json& node_;
  std::string path_;
  Errors& errors_;
  std::vector<std::string> known_;
};

}  // namespace volley
