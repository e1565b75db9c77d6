// Mutated plans: each is read, or refused with sentences that a terminal can show. The seed is fixed; an argument gives
// another number of plans than the usual one.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "../src/benchmarks.hpp"
#include "expect.hpp"
#include "transport/registry.hpp"

using namespace volley;

namespace {

using Dice = std::mt19937;
using Document = nlohmann::ordered_json;

std::size_t below(Dice& dice, std::size_t end) { return dice() % end; }

std::vector<std::string> examples() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(VOLLEY_SCHEMA_DIR "/examples")) {
    if (!entry.path().filename().string().starts_with("plan-")) continue;
    std::ifstream file(entry.path());
    found.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::ranges::sort(found);
  return found;
}

const std::vector<Document>& odd_values() {
  static const std::vector<Document> values{0,
                                            1,
                                            -1,
                                            2,
                                            255,
                                            std::numeric_limits<int>::max(),
                                            std::numeric_limits<std::int64_t>::max(),
                                            std::numeric_limits<std::int64_t>::min(),
                                            std::numeric_limits<std::uint64_t>::max(),
                                            1e308,
                                            -1e308,
                                            1e-320,
                                            0.5,
                                            "",
                                            "host",
                                            "\x1b[31m",
                                            "\xff",
                                            std::string(5000, 'a'),
                                            nullptr,
                                            true,
                                            Document::array(),
                                            Document::object(),
                                            Document::array({0, 1}),
                                            Document::array({2147483647, 1}),
                                            "jacobi",
                                            "rank_matrix",
                                            "gpu_matrix",
                                            "fixed"};
  return values;
}

// Every value inside a document.
void collect(Document& node, std::vector<Document*>& found) {
  const auto take = [&](Document& value) {
    found.push_back(&value);
    collect(value, found);
  };
  if (!node.is_structured()) return;
  for (auto& value : node) take(value);
}

std::string mutated(const std::string& text, Dice& dice) {
  if (below(dice, 5) == 0) {
    std::string bytes = text;
    for (std::size_t i = 0; i <= below(dice, 4); ++i) bytes[below(dice, bytes.size())] = static_cast<char>(dice());
    return bytes.substr(0, below(dice, 3) == 0 ? below(dice, bytes.size()) : bytes.size());
  }
  Document document = Document::parse(text);
  for (std::size_t i = 0; i <= below(dice, 3); ++i) {
    std::vector<Document*> values;
    collect(document, values);
    *values[below(dice, values.size())] = odd_values()[below(dice, odd_values().size())];
    if (below(dice, 8) == 0) document["unknown"] = odd_values()[below(dice, odd_values().size())];
  }
  return document.dump(-1, ' ', false, Document::error_handler_t::replace);
}

void try_plan(const std::string& text) {
  const PlanReading reading = read_plan(text, benchmarks);
  for (const auto& error : reading.errors) {
    const bool shown = std::ranges::none_of(error, [](unsigned char c) { return c < ' ' || c == 0x7f; });
    EXPECT(error.starts_with("plan: ") && shown && error.size() < 2000);
  }
  EXPECT(!reading.errors.empty() || reading.benchmark != nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const long plans = argc > 1 ? std::atol(argv[1]) : 5000;
  const auto texts = examples();
  EXPECT(!texts.empty());
  Dice dice(argc > 2 ? static_cast<unsigned>(std::atol(argv[2])) : 20261122U);
  for (long i = 0; i < plans; ++i) try_plan(mutated(texts[below(dice, texts.size())], dice));
  return test::finish();
}
