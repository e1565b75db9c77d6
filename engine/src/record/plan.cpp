#include "record/plan.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "benchmark/gpu_matrix/section.hpp"
#include "record/json.hpp"
#include "transport/entry.hpp"

namespace volley {

namespace {

using Errors = std::vector<std::string>;

// One JSON object being read: remembers where it is and which keys were asked for, and collects every error.
class Object {
 public:
  Object(const Json& node, std::string path, Errors& errors) : node_(node), path_(std::move(path)), errors_(errors) {
    if (!node_.is_object()) complain("", "expected an object");
  }

  void boolean(const char* key, bool& target) {
    read(key, false, "true or false", [](const Json& v) { return v.is_boolean(); }, target);
  }
  template <class Number>
  void integer(const char* key, Number& target, Number least, bool required = false) {
    const auto fits = [&](const Json& v) {
      return v.is_number_integer() && v >= least &&
             (v.is_number_unsigned()
                  ? v.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<Number>::max())
                  : true);
    };
    read(key, required, "a whole number of at least " + std::to_string(least), fits, target);
  }
  template <class Number>
  void optional_integer(const char* key, std::optional<Number>& target, Number least) {
    const Json* value = find(key);
    if (value == nullptr || value->is_null()) return;
    Number number = least;
    integer(key, number, least);
    target = number;
  }
  // A list of two whole numbers, which must be there.
  template <class Number>
  void two(const char* key, std::array<Number, 2>& target, Number least) {
    const Json* value = present(key, true, "two whole numbers of at least " + std::to_string(least));
    if (value == nullptr) return;
    const auto fits = [&](const Json& v) {
      return v.is_number_integer() && v >= least && v <= std::numeric_limits<std::int32_t>::max();
    };
    if (value->is_array() && value->size() == 2 && fits((*value)[0]) && fits((*value)[1])) {
      target = {(*value)[0].get<Number>(), (*value)[1].get<Number>()};
    } else {
      complain(key, "expected two whole numbers of at least " + std::to_string(least) + ", found " + shown(*value));
    }
  }
  void positive(const char* key, double& target, double most = std::numeric_limits<double>::infinity()) {
    std::ostringstream expected;
    expected << "a number above 0";
    if (most != std::numeric_limits<double>::infinity()) expected << " and at most " << most;
    read(key, false, expected.str(), [&](const Json& v) { return v.is_number() && v > 0 && v <= most; }, target);
  }
  void optional_positive(const char* key, std::optional<double>& target) {
    const Json* value = find(key);
    if (value == nullptr || value->is_null()) return;
    double number = 0;
    positive(key, number);
    target = number;
  }
  template <class Choice>
  void choice(const char* key, Choice& target, const std::vector<std::pair<std::string, Choice>>& choices,
              bool required = false) {
    std::string names;
    for (const auto& [name, value] : choices) names += (names.empty() ? "`" : ", `") + name + "`";
    const Json* value = present(key, required, "one of " + names);
    if (value == nullptr) return;
    for (const auto& [name, meaning] : choices) {
      if (*value == name) {
        target = meaning;
        return;
      }
    }
    complain(key, "expected one of " + names + ", found " + shown(*value));
  }
  template <class Item, class Fits>
  void list(const char* key, std::vector<Item>& target, const char* expected, Fits fits, bool required = false) {
    const Json* value = present(key, required, "a list");
    if (value == nullptr) return;
    if (!value->is_array()) return complain(key, "expected a list, found " + shown(*value));
    for (std::size_t i = 0; i < value->size(); ++i) {
      const Json& item = (*value)[i];
      if (fits(item)) target.push_back(item.get<Item>());
      else
        complain(std::string(key) + "[" + std::to_string(i) + "]",
                 std::string("expected ") + expected + ", found " + shown(item));
    }
  }
  template <class Read>
  void object(const char* key, Read read) {
    const Json* value = find(key);
    if (value == nullptr) return;
    Object inner(*value, path_ + "." + key, errors_);
    read(inner);
    inner.finish();
  }
  void any_object(const char* key) {
    const Json* value = find(key);
    if (value != nullptr && !value->is_object()) complain(key, "expected an object, found " + shown(*value));
  }
  void texts(const char* key, std::map<std::string, std::string>& target) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_object()) return complain(key, "expected an object, found " + shown(*value));
    for (const auto& [name, text] : value->items()) {
      if (text.is_string()) target[name] = text;
      else complain(std::string(key) + "." + name, "expected a text, found " + shown(text));
    }
  }
  [[nodiscard]] bool has(const char* key) const { return node_.contains(key); }
  // Complains about every key that nobody asked for.
  void finish() {
    if (!node_.is_object()) return;
    for (const auto& [key, value] : node_.items()) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) complain(key, "unknown key");
    }
  }
  void complain(const std::string& key, const std::string& what) {
    errors_.push_back("plan: " + path_ + (key.empty() ? "" : "." + key) + ": " + what);
  }

 private:
  static std::string shown(const Json& value) {
    std::string text = line_of(value);
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    return text;
  }
  const Json* find(const char* key) {
    known_.emplace_back(key);
    if (!node_.is_object()) return nullptr;
    const auto found = node_.find(key);
    return found == node_.end() ? nullptr : &*found;
  }
  const Json* present(const char* key, bool required, const std::string& expected) {
    const Json* value = find(key);
    if (value == nullptr && required && node_.is_object()) complain(key, "missing: expected " + expected);
    return value;
  }
  template <class Fits, class Target>
  void read(const char* key, bool required, const std::string& expected, Fits fits, Target& target) {
    const Json* value = present(key, required, expected);
    if (value == nullptr) return;
    if (fits(*value)) target = value->get<Target>();
    else complain(key, "expected " + expected + ", found " + shown(*value));
  }

  const Json& node_;
  std::string path_;
  Errors& errors_;
  std::vector<std::string> known_;
};

void read_sampling(Object& object, Sampling& sampling) {
  object.choice("mode", sampling.fixed, {{"adaptive", false}, {"fixed", true}});
  object.positive("interval", sampling.interval, 1.0);
  object.positive("point_time_s", sampling.point_time_s);
  object.integer("min_visits", sampling.min_visits, 1);
  object.integer("warmup", sampling.warmup, std::uint64_t{0});
  object.integer("iterations", sampling.iterations, std::uint64_t{1});
  object.boolean("tail", sampling.tail);
}

void read_stream(Object& object, Window& stream) {
  object.integer("window", stream.messages, 1);
  object.choice("direction", stream.direction, {{"uni", Direction::uni}, {"bi", Direction::bi}});
}

bool is_size(const Json& value) {
  return value.is_number_integer() && value >= 1 && value <= std::numeric_limits<std::int64_t>::max();
}

constexpr const char* a_size = "a whole number of bytes of at least 1";

bool is_pair(const Json& value) {
  const auto is_rank = [](const Json& v) {
    return v.is_number_integer() && v >= 0 && v <= std::numeric_limits<int>::max();
  };
  return value.is_array() && value.size() == 2 && is_rank(value[0]) && is_rank(value[1]) && value[0] != value[1];
}

void read_matrix(Object& object, Matrix& matrix) {
  object.choice("mode", matrix.loaded, {{"isolated", false}, {"loaded", true}});
  object.list("latency_sizes_bytes", matrix.latency_sizes_bytes, a_size, is_size);
  object.list("bandwidth_sizes_bytes", matrix.bandwidth_sizes_bytes, a_size, is_size);
  object.list("pairs", matrix.pairs, "two different ranks", is_pair);
  object.integer("repeats", matrix.repeats, 1);
  object.boolean("samples", matrix.samples);
}

void check_matrix(Object& object, const Plan& plan) {
  if (plan.world_size < 2) object.complain("world_size", "a matrix is between at least 2 ranks, found 1");
  if (plan.matrix.latency_sizes_bytes.empty() && plan.matrix.bandwidth_sizes_bytes.empty()) {
    object.complain("matrix", "expected at least one size in `latency_sizes_bytes` or `bandwidth_sizes_bytes`");
  }
  for (const auto& [first, second] : plan.matrix.pairs) {
    if (std::max(first, second) < plan.world_size) continue;
    object.complain("matrix.pairs", "there is no rank " + std::to_string(std::max(first, second)) + " among " +
                                        std::to_string(plan.world_size));
  }
}

void read_node(Object& object, Node& node) {
  const auto is_number = [](const Json& v) {
    return v.is_number_integer() && v >= 0 && v <= std::numeric_limits<int>::max();
  };
  object.list("sections", node.sections, "a section's name", [](const Json& v) { return v.is_string(); }, true);
  object.list("gpus", node.gpus, "the number of a GPU", is_number);
  object.integer("largest_bytes", node.largest_bytes, std::uint64_t{64} << 10);
  object.boolean("quick", node.quick);
  object.boolean("samples", node.samples);
}

void check_node(Object& object, const Plan& plan) {
  if (plan.world_size != 1) {
    object.complain("world_size",
                    "one rank has all GPUs of a node's matrices, found " + std::to_string(plan.world_size));
  }
  if (!object.has("node")) return object.complain("node", "missing: expected an object");
  if (plan.node.sections.empty()) object.complain("node.sections", "expected at least one section");
  for (std::size_t i = 0; i < plan.node.sections.size(); ++i) {
    if (gpu_matrix::find_section(plan.node.sections[i]) != nullptr) continue;
    std::string names;
    for (const auto& section : gpu_matrix::sections()) names += (names.empty() ? "" : ", ") + std::string(section.name);
    object.complain("node.sections[" + std::to_string(i) + "]",
                    "there is no section `" + plan.node.sections[i] + "`; there are " + names);
  }
  for (auto each = plan.node.gpus.begin(); each != plan.node.gpus.end(); ++each) {
    if (std::find(plan.node.gpus.begin(), each, *each) == each) continue;
    object.complain("node.gpus", "GPU " + std::to_string(*each) + " is named twice");
  }
}

void read_jacobi(Object& object, Jacobi& jacobi) {
  object.two("topology", jacobi.topology, 1);
  object.two("domain", jacobi.domain, std::int64_t{3});
  object.choice("precision", jacobi.single, {{"double", false}, {"float", true}});
  object.integer("iterations", jacobi.iterations, std::uint64_t{1});
  object.positive("tolerance", jacobi.tolerance);
  object.integer("check_every", jacobi.check_every, std::uint64_t{1});
  object.boolean("overlap", jacobi.overlap);
  object.optional_integer("threads", jacobi.threads, 1);
}

// Every grid of so many processes, for people: "1 x 6, 2 x 3, 3 x 2, 6 x 1".
std::string grids_of(int ranks) {
  std::string text;
  for (int across = 1; across <= ranks; ++across) {
    if (ranks % across != 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(across) + " x " + std::to_string(ranks / across);
  }
  return text;
}

using Transports = std::span<const TransportEntry>;

void check_jacobi(Object& object, const Plan& plan, Transports transports) {
  if (!object.has("jacobi")) return object.complain("jacobi", "missing: expected an object");
  const auto [across, along] = plan.jacobi.topology;
  if (std::int64_t{across} * along != plan.world_size) {
    object.complain("jacobi.topology", "a grid of " + std::to_string(across) + " x " + std::to_string(along) +
                                           " processes does not fit " + std::to_string(plan.world_size) +
                                           (plan.world_size == 1 ? " rank" : " ranks") +
                                           "; these do: " + grids_of(plan.world_size));
  }
  for (std::size_t i = 0; i < plan.transports.size(); ++i) {
    const TransportEntry* entry = find_transport(transports, plan.transports[i]);
    if (entry == nullptr || entry->halos) continue;
    std::string names;
    for (const auto& other : transports) {
      if (other.halos && !other.test) names += (names.empty() ? "" : ", ") + std::string(other.name);
    }
    object.complain("transports[" + std::to_string(i) + "]",
                    "`" + plan.transports[i] + "` carries no halos; those that do: " + names);
  }
}

void check_transports(Object& object, const Plan& plan, Transports transports) {
  for (std::size_t i = 0; i < plan.transports.size(); ++i) {
    if (find_transport(transports, plan.transports[i]) != nullptr) continue;
    std::string names;
    for (const auto& entry : transports) names += (names.empty() ? "" : ", ") + std::string(entry.name);
    object.complain("transports[" + std::to_string(i) + "]", "this engine has no transport `" + plan.transports[i] +
                                                                 "`; it has " + (names.empty() ? "none" : names));
  }
}

// A complaint may quote what a plan says: one line, and not a page of it.
std::string readable(const std::string& text) {
  constexpr std::size_t longest = 600;
  std::string shown = text.size() > longest ? text.substr(0, longest) + " ..." : text;
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return shown;
}

// A plan of another version cannot be judged key by key.
std::string wrong_version(const Json& document) {
  if (!document.is_object()) return "plan: $: expected an object";
  const auto found = document.find("plan");
  if (found == document.end() || *found == plan_version) return {};
  if (!found->is_number_integer()) return "plan: $.plan: expected a version number, found " + line_of(*found);
  return "plan: $.plan: this plan has version " + line_of(*found) + ", this engine reads version " +
         std::to_string(plan_version) + "; use the front and the engine of one release";
}

void read_into(PlanReading& reading, Object& object, Transports transports) {
  Plan& plan = reading.plan;
  int version = plan_version;
  object.integer("plan", version, 1);
  const std::size_t before = reading.errors.size();
  object.choice("benchmark", plan.benchmark,
                {{"pingpong", Benchmark::pingpong},
                 {"stream", Benchmark::stream},
                 {"matrix", Benchmark::matrix},
                 {"node", Benchmark::node},
                 {"jacobi", Benchmark::jacobi},
                 {"probe", Benchmark::probe}},
                true);
  reading.benchmark_known = reading.errors.size() == before;
  object.integer("world_size", plan.world_size, 1);
  object.list("transports", plan.transports, "a transport's name", [](const Json& v) { return v.is_string(); }, true);
  object.list("sizes_bytes", plan.sizes_bytes, a_size, is_size);
  object.texts("excluded", plan.excluded);
  object.object("sampling", [&](Object& inner) { read_sampling(inner, plan.sampling); });
  object.object("stream", [&](Object& inner) { read_stream(inner, plan.window); });
  object.object("matrix", [&](Object& inner) { read_matrix(inner, plan.matrix); });
  object.object("node", [&](Object& inner) { read_node(inner, plan.node); });
  object.object("jacobi", [&](Object& inner) { read_jacobi(inner, plan.jacobi); });
  object.boolean("verify", plan.verify);
  object.boolean("fresh_buffers", plan.fresh_buffers);
  object.boolean("share_device", plan.share_device);
  object.optional_positive("budget_s", plan.budget_s);
  object.positive("watchdog_s", plan.watchdog_s);
  object.any_object("launch");
  check_transports(object, plan, transports);
  object.finish();
  if (plan.benchmark == Benchmark::matrix) return check_matrix(object, plan);
  if (plan.benchmark == Benchmark::node) return check_node(object, plan);
  if (plan.benchmark == Benchmark::jacobi) return check_jacobi(object, plan, transports);
  if (plan.benchmark != Benchmark::probe && plan.world_size != 2) {
    object.complain("world_size",
                    "a ping-pong or stream is between exactly 2 ranks, found " + std::to_string(plan.world_size));
  }
}

}  // namespace

PlanReading read_plan(const std::string& text, std::span<const TransportEntry> transports) {
  PlanReading reading;
  Plan& plan = reading.plan;
  Json document;
  try {
    document = json_from(text);
  } catch (const Json::exception& error) {  // the library's way of answering; turned into one of ours
    reading.errors.push_back(readable("plan: not a JSON document: " + std::string(error.what())));
    return reading;
  } catch (const TooDeep& error) {
    reading.errors.push_back("plan: " + std::string(error.what()));
    return reading;
  }
  if (const auto complaint = wrong_version(document); !complaint.empty()) {
    reading.errors.push_back(complaint);
    return reading;
  }
  plan.document = text;
  Object object(document, "$", reading.errors);
  read_into(reading, object, transports);
  for (auto& error : reading.errors) error = readable(error);
  return reading;
}

}  // namespace volley
