#include "record/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>

#include "base/text.hpp"

namespace volley {
namespace {

using Value = PlanObject::Value;
using Errors = PlanObject::Errors;

constexpr std::uint64_t largest_int = std::numeric_limits<int>::max();

// Whole numbers that are not negative: the library has a type for them.
bool is_natural(const Value& value, std::uint64_t least, std::uint64_t most) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() >= least && value.get<std::uint64_t>() <= most;
}

bool is_one_of(const std::vector<std::string>& names, const Value& value) {
  return value.is_string() && std::ranges::count(names, value.get_ref<const std::string&>()) > 0;
}

bool is_pair(const Value& value) {
  return value.is_array() && value.size() == 2 && is_natural(value[0], 0, largest_int) &&
         is_natural(value[1], 0, largest_int) && value[0] != value[1];
}

bool is_round(const Value& value) {
  if (!value.is_array() || !std::ranges::all_of(value, is_pair)) return false;
  std::set<int> ranks;
  for (const auto& pair : value) ranks.insert({pair[0].get<int>(), pair[1].get<int>()});
  return ranks.size() == 2 * value.size();
}

std::string line_of(const Value& value) { return value.dump(-1, ' ', false, Value::error_handler_t::replace); }

// Null, and an error, if the text is none.
Value parsed(const std::string& text, Errors& errors) {
  // The writer is recursive: without a limit a document could exhaust the stack.
  constexpr int deepest = 100;
  const auto shallow = [](int depth, Value::parse_event_t, const Value&) {
    if (depth > deepest) throw std::length_error("nested deeper than " + std::to_string(deepest) + " levels");
    return true;
  };
  try {
    return Value::parse(text, shallow);
  } catch (const std::length_error& error) {
    errors.push_back("plan: " + std::string(error.what()));
  } catch (const Value::exception& error) {
    errors.push_back("plan: not a JSON document: " + std::string(error.what()));
  }
  return nullptr;
}

// The keys of a plan with another version are unknown, so only the version is checked.
std::string wrong_version(const Value& document) {
  if (!document.is_object()) return "plan: $: expected an object";
  const auto found = document.find("plan");
  if (found == document.end() || *found == plan_version) return {};
  if (!found->is_number_integer()) return "plan: $.plan: expected a version number, found " + line_of(*found);
  return "plan: $.plan: this plan has version " + line_of(*found) + ", this engine reads version " +
         std::to_string(plan_version) + "; use a front end and an engine of the same release";
}

// Error messages quote at most one line of the plan.
std::string readable(const std::string& text) {
  constexpr std::size_t longest = 600;
  std::string shown = text.size() > longest ? text.substr(0, longest) + " ..." : text;
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return shown;
}

}  // namespace

std::string PlanObject::read_plan(const std::string& text, Errors& errors, const Read& read) {
  const Value document = parsed(text, errors);
  if (errors.empty()) {
    if (const auto complaint = wrong_version(document); !complaint.empty()) errors.push_back(complaint);
  }
  if (errors.empty()) {
    PlanObject plan(document, "$", errors);
    int version = plan_version;
    plan.integer("plan", version, 1);
    read(plan);
    plan.finish();
  }
  for (auto& error : errors) error = readable(error);
  return line_of(document);
}

PlanObject::PlanObject(const Value& node, std::string path, Errors& errors)
    : node_(node), path_(std::move(path)), errors_(errors) {
  if (!node_.is_object()) complain("", "expected an object");
}

const Value* PlanObject::find(const char* key) {
  known_.emplace_back(key);
  const auto found = node_.find(key);
  return found == node_.end() ? nullptr : &*found;
}

// The value of the key if it fits; else null, and a complaint.
const Value* PlanObject::fitting(const char* key, const std::string& what, const Fits& fits, bool may_be_null) {
  const Value* value = find(key);
  if (value == nullptr || (may_be_null && value->is_null())) return nullptr;
  if (fits(*value)) return value;
  expected(key, what, *value);
  return nullptr;
}

void PlanObject::boolean(const char* key, bool& target) {
  if (const Value* value = fitting(key, "true or false", &Value::is_boolean)) target = value->get<bool>();
}

std::optional<double> PlanObject::number(const char* key, double most, bool may_be_null) {
  std::ostringstream what;
  what << "a number above 0";
  if (most != std::numeric_limits<double>::infinity()) what << " and at most " << most;
  const auto fits = [&](const Value& v) { return v.is_number() && v.get<double>() > 0 && v.get<double>() <= most; };
  const Value* value = fitting(key, what.str(), fits, may_be_null);
  return value == nullptr ? std::nullopt : std::optional(value->get<double>());
}

std::optional<std::uint64_t> PlanObject::natural(const char* key, std::uint64_t least, std::uint64_t most,
                                                 bool may_be_null) {
  const std::string what = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  const auto fits = [&](const Value& v) { return is_natural(v, least, most); };
  const Value* value = fitting(key, what, fits, may_be_null);
  return value == nullptr ? std::nullopt : std::optional(value->get<std::uint64_t>());
}

std::optional<std::array<std::uint64_t, 2>> PlanObject::two_naturals(const char* key, std::uint64_t least) {
  const std::string what = "two whole numbers of at least " + std::to_string(least);
  const auto fits = [&](const Value& v) { return is_natural(v, least, largest_count); };
  require(key, what);
  const Value* value =
      fitting(key, what, [&](const Value& v) { return v.is_array() && v.size() == 2 && fits(v[0]) && fits(v[1]); });
  if (value == nullptr) return std::nullopt;
  return value->get<std::array<std::uint64_t, 2>>();
}

std::optional<std::size_t> PlanObject::one_of(const char* key, const std::vector<std::string>& names) {
  const Value* value =
      fitting(key, "one of `" + joined(names, "`, `") + "`", [&](const Value& v) { return is_one_of(names, v); });
  if (value == nullptr) return std::nullopt;
  return static_cast<std::size_t>(std::ranges::find(names, value->get_ref<const std::string&>()) - names.begin());
}

template <class Item>
void PlanObject::list(const char* key, std::vector<Item>& target, const std::string& what, const Fits& fits) {
  const Value* value = fitting(key, "a list", &Value::is_array);
  for (std::size_t i = 0; value != nullptr && i < value->size(); ++i) {
    const Value& item = (*value)[i];
    if (fits(item)) target.push_back(item.get<Item>());
    else expected(place(key, i), what, item);
  }
}

void PlanObject::names(const char* key, std::vector<std::string>& target, const char* fitting) {
  list(key, target, fitting, &Value::is_string);
}

void PlanObject::names(const char* key, std::vector<std::string>& target, const char* fitting,
                       const std::vector<std::string>& allowed) {
  list(key, target, fitting, [&](const Value& v) { return is_one_of(allowed, v); });
}

void PlanObject::integers(const char* key, std::vector<int>& target, const char* fitting, int least) {
  list(key, target, fitting,
       [&](const Value& v) { return is_natural(v, static_cast<std::uint64_t>(least), largest_int); });
}

void PlanObject::sizes(const char* key, std::vector<std::uint64_t>& target, std::uint64_t least) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  list(key, target, "a whole number of bytes of at least " + std::to_string(least),
       [&](const Value& v) { return is_natural(v, least, most); });
}

void PlanObject::some_sizes(const char* key, std::vector<std::uint64_t>& target, std::uint64_t least) {
  sizes(key, target, least);
  if (target.empty()) complain(key, "expected at least one size");
}

void PlanObject::pairs(const char* key, Pairs& target) { list(key, target, "two different ranks", is_pair); }

void PlanObject::rounds(const char* key, std::vector<Pairs>& target) {
  list(key, target, "a list of pairs in which no rank is twice", is_round);
}

void PlanObject::texts(const char* key, std::map<std::string, std::string>& target) {
  const Value* value = fitting(key, "an object", &Value::is_object);
  if (value == nullptr) return;
  for (const auto& [name, text] : value->items()) {
    if (text.is_string()) target[name] = text.get<std::string>();
    else expected(std::string(key) + "." + name, "a text", text);
  }
}

void PlanObject::any_object(const char* key) { static_cast<void>(fitting(key, "an object", &Value::is_object)); }

void PlanObject::object(const char* key, const Read& read) {
  static const Value nothing = Value::object();
  const Value* value = find(key);
  PlanObject inner(value == nullptr ? nothing : *value, path_ + "." + key, errors_);
  read(inner);
  inner.finish();
}

void PlanObject::require(const char* key, const std::string& fitting) {
  if (node_.is_object() && find(key) == nullptr) complain(key, "missing: expected " + fitting);
}

// Complains about every key that was not read.
void PlanObject::finish() {
  if (!node_.is_object()) return;
  for (const auto& [key, value] : node_.items()) {
    if (std::ranges::count(known_, key) == 0) complain(key, "unknown key");
  }
}

void PlanObject::complain(const std::string& key, const std::string& what) {
  errors_.push_back("plan: " + path_ + (key.empty() ? "" : "." + key) + ": " + what);
}

void PlanObject::complain_of_plan(const std::string& key, const std::string& what) {
  errors_.push_back("plan: $." + key + ": " + what);
}

void PlanObject::expected(const std::string& key, const std::string& what, const Value& found) {
  std::string text = line_of(found);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  complain(key, "expected " + what + ", found " + text);
}

std::string without_option(const std::string& plan, const char* key) {
  Value document = Value::parse(plan);
  document["options"][key] = Value::array();
  return line_of(document);
}

}  // namespace volley
