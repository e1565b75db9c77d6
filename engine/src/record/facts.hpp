// Facts about a transport: names and plain values. Transports do not include the JSON header, which would
// dominate the compile time of each of their files.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace volley {

struct Fact;
using Facts = std::vector<Fact>;

struct Fact {
  Fact(std::string its_name, std::string text) : name(std::move(its_name)), value(std::move(text)) {}
  Fact(std::string its_name, const char* text) : name(std::move(its_name)), value(std::string(text)) {}
  Fact(std::string its_name, std::integral auto number)
      : name(std::move(its_name)), value(static_cast<std::int64_t>(number)) {}
  Fact(std::string its_name, double number) : name(std::move(its_name)), value(number) {}
  Fact(std::string its_name, std::vector<Facts> rows) : name(std::move(its_name)), value(std::move(rows)) {}

  std::string name;
  std::variant<std::int64_t, double, std::string, std::vector<Facts>> value;
};

}  // namespace volley
