// SPDX-License-Identifier: MIT
#include "tools/verbena/devinfo/json.hpp"

#include <nlohmann/json.hpp>

namespace verbena::tool {
namespace {

using json = nlohmann::ordered_json;

json render(const section& of);

json render(const std::vector<section>& list) {
  json all = json::array();
  for (const auto& entry : list) all.push_back(render(entry));
  return all;
}

std::string key_of(const field& of) {
  return of.unit == unit::none ? of.key : of.key + '_' + std::string(suffix(of.unit));
}

// Prints whole numbers without a fraction: 2, not 2.0.
json render(double number) {
  const auto whole = static_cast<std::int64_t>(number);
  return static_cast<double>(whole) == number ? json(whole) : json(number);
}

struct json_renderer {
  json operator()(unknown) const { return nullptr; }
  json operator()(std::int64_t number) const { return number; }
  json operator()(std::uint64_t number) const { return number; }
  json operator()(double number) const { return render(number); }
  json operator()(const std::string& text) const { return text; }
  json operator()(hexadecimal of) const { return of.number; }
  json operator()(const enumerated& of) const { return {{"number", of.number}, {"name", of.name}}; }
  json operator()(const bit_set& of) const { return {{"mask", of.mask}, {"names", of.names}}; }
  json operator()(const coded& of) const { return of.amount ? render(*of.amount) : json(nullptr); }
  json operator()(const section& of) const { return render(of); }
  json operator()(const std::vector<section>& of) const { return render(of); }
};

json render(const section& of) {
  json all = json::object();
  for (const auto& entry : of) {
    if (entry.audience == audience::people) continue;
    if (const auto* const code = std::get_if<coded>(&entry.value)) all[entry.key] = code->code;
    all[key_of(entry)] = std::visit(json_renderer(), entry.value);
  }
  return all;
}

}  // namespace

std::string to_json(const std::vector<section>& devices) {
  return json{{"devices", render(devices)}}.dump(2);
}

}  // namespace verbena::tool
