// SPDX-License-Identifier: MIT
// The settings of soft0 for other hosts (docs/environment.md).
#include <string_view>

#include "src/base/secret_file.hpp"
#include "verbena/diagnose/host_facts.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {

wire_settings gather_wire_settings(const fact_sources& from) {
  const auto value_of = [&](const char* name) -> std::string_view {
    const char* const text = from.environment(name);
    return text != nullptr ? text : std::string_view();
  };
  wire_settings found;
  const std::string_view wire = value_of("VERBENA_SOFTDEV_WIRE");
  const std::string_view persona = value_of("VERBENA_SOFTDEV_PERSONA");
  found.on = !wire.empty() && wire != "off" && (persona.empty() || persona == "roce");
  const char* const path = from.environment("VERBENA_SOFTDEV_WIRE_KEY_FILE");
  if (path == nullptr) return found;
  found.key_file = path;
  if (const auto file = verbena::detail::open_secret_file(path); !file)
    found.key_problem = file.error().message();
  return found;
}

}  // namespace verbena::inline VERBENA_ABI::diagnose
