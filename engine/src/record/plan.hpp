// The plan says what to measure. src/volley/records/plan.py defines it, and schema/plan.schema.json is generated from
// there. This file has the part that all benchmarks share; each benchmark reads its own part, `options`.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

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
  std::string document;  // the plan's text, one line, for the run record
};

// Reads one JSON object of a plan. Collects all errors, each with its place. An absent key leaves its target as it is,
// and so does null where the target is optional.
class PlanObject {
 public:
  using Errors = std::vector<std::string>;
  using Value = nlohmann::ordered_json;  // plan.cpp includes the library
  using Read = std::function<void(PlanObject&)>;

  // The bounds of counts and times; src/volley/document.py has the same.
  static constexpr int largest_count = std::numeric_limits<std::int32_t>::max();
  static constexpr double longest_s = 1e9;

  // Reads the plan in a text, and returns it as one line. Only the version of a plan with another one is read.
  static std::string read_plan(const std::string& text, Errors& errors, const Read& read);

  PlanObject(const Value& node, std::string path, Errors& errors);

  void boolean(const char* key, bool& target);

  // A number above 0 and at most `most`.
  void positive(const char* key, auto& target, double most = std::numeric_limits<double>::infinity()) {
    if (const auto found = number(key, most, requires { target.has_value(); })) target = *found;
  }
  void seconds(const char* key, auto& target) { positive(key, target, longest_s); }

  template <class Target, class Number>
  void integer(const char* key, Target& target, Number least, Number most = largest_count) {
    const bool may_be_null = requires { target.has_value(); };
    const auto found = natural(key, static_cast<std::uint64_t>(least), static_cast<std::uint64_t>(most), may_be_null);
    if (found) target = static_cast<Number>(*found);
  }

  // A list of two whole numbers. The key must be present.
  template <class Number>
  void two(const char* key, std::array<Number, 2>& target, Number least) {
    const auto found = two_naturals(key, static_cast<std::uint64_t>(least));
    if (found) target = {static_cast<Number>((*found)[0]), static_cast<Number>((*found)[1])};
  }

  template <class Meaning>
  void choice(const char* key, Meaning& target, const std::vector<std::pair<std::string, Meaning>>& choices) {
    std::vector<std::string> names;
    for (const auto& [name, meant] : choices) names.push_back(name);
    if (const auto found = one_of(key, names)) target = choices[*found].second;
  }
  // The same of an enumeration, with its names in their order.
  template <class Meaning, std::size_t count>
  void choice(const char* key, Meaning& target, const std::array<const char*, count>& names) {
    if (const auto found = one_of(key, {names.begin(), names.end()})) target = static_cast<Meaning>(*found);
  }

  // Lists; `fitting` describes an item.
  void names(const char* key, std::vector<std::string>& target, const char* fitting);
  void names(const char* key, std::vector<std::string>& target, const char* fitting,
             const std::vector<std::string>& allowed);
  void integers(const char* key, std::vector<int>& target, const char* fitting, int least);
  void sizes(const char* key, std::vector<std::uint64_t>& target, std::uint64_t least = 1);
  void some_sizes(const char* key, std::vector<std::uint64_t>& target, std::uint64_t least = 1);
  // Of two different ranks; and of lists of such pairs in which no rank is twice.
  using Pairs = std::vector<std::array<int, 2>>;
  void pairs(const char* key, Pairs& target);
  void rounds(const char* key, std::vector<Pairs>& target);

  void texts(const char* key, std::map<std::string, std::string>& target);
  void any_object(const char* key);
  // Calls `read` with the object of that key, or with an empty one if the key is absent.
  void object(const char* key, const Read& read);

  // The number of the name that the key has; none, with a complaint if it has no such name.
  [[nodiscard]] std::optional<std::size_t> one_of(const char* key, const std::vector<std::string>& names);
  // Complains if the key is absent.
  void require(const char* key, const std::string& fitting);

  void complain(const std::string& key, const std::string& what);
  // The same for a key at the top of the plan.
  void complain_of_plan(const std::string& key, const std::string& what);
  // "key[3]".
  [[nodiscard]] static std::string place(const std::string& key, std::size_t i) {
    return key + "[" + std::to_string(i) + "]";
  }

 private:
  using Fits = std::function<bool(const Value&)>;
  [[nodiscard]] const Value* find(const char* key);
  [[nodiscard]] const Value* fitting(const char* key, const std::string& what, const Fits& fits,
                                     bool may_be_null = false);
  [[nodiscard]] std::optional<double> number(const char* key, double most, bool may_be_null);
  [[nodiscard]] std::optional<std::uint64_t> natural(const char* key, std::uint64_t least, std::uint64_t most,
                                                     bool may_be_null);
  [[nodiscard]] std::optional<std::array<std::uint64_t, 2>> two_naturals(const char* key, std::uint64_t least);
  template <class Item>
  void list(const char* key, std::vector<Item>& target, const std::string& what, const Fits& fits);
  void expected(const std::string& key, const std::string& what, const Value& found);
  void finish();

  const Value& node_;
  std::string path_;
  Errors& errors_;
  std::vector<std::string> known_;
};

// The plan's text with an empty list as this option.
[[nodiscard]] std::string without_option(const std::string& plan, const char* key);

}  // namespace volley
