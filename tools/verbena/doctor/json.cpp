// SPDX-License-Identifier: MIT
#include <nlohmann/json.hpp>

#include "tools/verbena/doctor/report.hpp"

namespace verbena::tool {
namespace {

using json = nlohmann::ordered_json;

const char* name_of(diagnose::device_kind kind) {
  static constexpr const char* names[] = {"soft", "kernel", "hardware"};
  return names[static_cast<std::size_t>(kind)];
}

json render(const diagnose::finding& of) {
  return {{"topic", of.topic},     {"severity", to_string(of.level)},
          {"subject", of.subject}, {"looked_at", of.looked_at},
          {"meaning", of.meaning}, {"commands", of.commands}};
}

}  // namespace

std::string to_json(const doctor_report& of) {
  json usable = nullptr;
  if (of.usable)
    usable = {{"device", of.usable->device},
              {"port", of.usable->port.value()},
              {"kind", name_of(of.usable->kind)}};
  json findings = json::array();
  for (const auto& each : of.findings) findings.push_back(render(each));
  return json{
      {"works", of.enough}, {"usable", usable}, {"verdict", of.verdict}, {"findings", findings}}
      .dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace verbena::tool
