// SPDX-License-Identifier: MIT
#include "tools/verbena/explain/command.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tools/verbena/wrap.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::tool {
namespace {

constexpr std::uint32_t last_code = 0xfff;

/// The description of a code, by the device.
struct explanation {
  std::uint32_t code = 0;
  std::string name;
  std::string status;
  std::string check;
  std::string remedy;
};

std::optional<explanation> find(const provider& soft, std::uint32_t code) {
  std::array<char, 1024> text{};
  constexpr std::uint32_t no_queue_pair = 0;
  const std::size_t length = soft.soft_explain(no_queue_pair, 0, code, text.data(), text.size());
  if (length == 0) return std::nullopt;
  explanation found{.code = code};
  std::istringstream lines(text.data());
  for (std::string* line : {&found.name, &found.status, &found.check, &found.remedy})
    std::getline(lines, *line);
  return found;
}

void print(const explanation& of) {
  constexpr std::size_t indent = 10;
  std::string text = fmt::format("0x{:x} ", of.code);
  append_wrapped(text, fmt::format("{} ({})", of.name, of.status), text.size());
  text += "  check:  ";
  append_wrapped(text, of.check, indent);
  text += "  remedy: ";
  append_wrapped(text, of.remedy, indent);
  std::cout << text;
}

nlohmann::ordered_json to_json(const explanation& of) {
  return {{"code", of.code},
          {"name", of.name},
          {"status", of.status},
          {"check", of.check},
          {"remedy", of.remedy}};
}

}  // namespace

int execute(const explain_options& options) {
  const auto soft = soft_provider();
  if (!soft || soft.value()->soft_explain == nullptr) {
    std::cerr << "verbena explain: "
              << (soft ? std::string("the software device has no descriptions")
                       : soft.error().message())
              << '\n';
    return 1;
  }
  std::vector<explanation> found;
  if (options.code) {
    if (auto one = find(**soft, *options.code)) found.push_back(std::move(*one));
  } else {
    for (std::uint32_t code = 1; code <= last_code; ++code)
      if (auto one = find(**soft, code)) found.push_back(std::move(*one));
  }
  if (found.empty()) {
    std::cerr << fmt::format(
        "verbena explain: soft0 has no vendor error code 0x{:x}. `verbena explain` lists its\n"
        "codes. Codes of adapters are described by their vendors.\n",
        options.code.value_or(0));
    return 1;
  }
  if (options.json) {
    auto all = nlohmann::ordered_json::array();
    for (const auto& one : found) all.push_back(to_json(one));
    std::cout << all.dump(2) << '\n';
    return 0;
  }
  for (const auto& one : found) print(one);
  return 0;
}

}  // namespace verbena::tool
