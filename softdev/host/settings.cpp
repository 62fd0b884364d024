// SPDX-License-Identifier: MIT
#include "softdev/host/settings.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

const char* from_environment(const char* name) { return std::getenv(name); }

}  // namespace

settings read_settings(const char* (*lookup)(const char* name)) {
  settings result;
  if (const char* text = lookup("VERBENA_SOFTDEV"); text != nullptr) {
    const std::string_view value = text;
    if (value == "off") {
      result.listed = listing::off;
    } else if (value != "on" && value != "only" && !value.empty()) {
      log(log_level::warning, "VERBENA_SOFTDEV is off, on or only; '" +
                                  std::string(value.substr(0, 40)) + "' is ignored");
    }
  }
  return result;
}

settings current_settings() { return read_settings(&from_environment); }

}  // namespace verbena::softdev
