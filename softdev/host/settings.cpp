// SPDX-License-Identifier: MIT
#include "softdev/host/settings.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

#include "softdev/host/warn_once.hpp"

namespace verbena::softdev {
namespace {

void ignored(const char* rule, std::string_view value) {
  warn_once(std::string(rule) + "; the value '" + std::string(value.substr(0, 40)) +
            "' is ignored");
}

const char* from_environment(const char* name) { return std::getenv(name); }

}  // namespace

settings read_settings(const char* (*lookup)(const char* name)) {
  settings result;
  if (const char* text = lookup("VERBENA_SOFTDEV"); text != nullptr) {
    const std::string_view value = text;
    if (value == "off") {
      result.listed = listing::off;
    } else if (value != "on" && value != "only" && !value.empty()) {
      ignored("VERBENA_SOFTDEV must be off, on or only", value);
    }
  }
  if (const char* text = lookup("VERBENA_SOFTDEV_PERSONA"); text != nullptr) {
    const std::string_view value = text;
    if (value == "infiniband") {
      result.looks = persona_kind::infiniband;
    } else if (value == "efa") {
      result.looks = persona_kind::efa;
    } else if (value != "roce" && !value.empty()) {
      ignored("VERBENA_SOFTDEV_PERSONA must be roce, infiniband or efa", value);
    }
  }
  if (const char* text = lookup("VERBENA_SOFTDEV_FAULTS"); text != nullptr) {
    const std::string_view value = text;
    if (value == "signal") {
      result.faults = fault_policy::signal;
    } else if (value != "request" && !value.empty()) {
      ignored("VERBENA_SOFTDEV_FAULTS must be request or signal", value);
    }
  }
  return result;
}

settings current_settings() { return read_settings(&from_environment); }

}  // namespace verbena::softdev
