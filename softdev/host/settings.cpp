// SPDX-License-Identifier: MIT
#include "softdev/host/settings.hpp"

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "softdev/host/warn_once.hpp"

namespace verbena::softdev {
namespace {

/// All headers of the shortest packet.
constexpr std::uint32_t least_captured_bytes = 64;

void ignored(const char* rule, std::string_view value) {
  warn_once(std::string(rule) + "; the value '" + std::string(value.substr(0, 40)) +
            "' is ignored");
}

/// A program with the privileges of another user must not write to files that its caller names.
const char* from_environment(const char* name) {
  const bool names_file = std::string_view(name).starts_with("VERBENA_SOFTDEV_CAPTURE");
  return names_file ? ::secure_getenv(name) : std::getenv(name);
}

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
  if (const char* text = lookup("VERBENA_SOFTDEV_CAPTURE"); text != nullptr) result.capture = text;
  if (const char* text = lookup("VERBENA_SOFTDEV_CAPTURE_BYTES"); text != nullptr) {
    const std::string_view value = text;
    const char* const end = value.data() + value.size();
    std::uint32_t bytes = 0;
    const auto [stop, wrong] = std::from_chars(value.data(), end, bytes);
    if (wrong == std::errc() && stop == end && bytes >= least_captured_bytes) {
      result.captured_bytes = bytes;
    } else if (!value.empty()) {
      ignored("VERBENA_SOFTDEV_CAPTURE_BYTES must be a number of at least 64", value);
    }
  }
  return result;
}

settings current_settings() { return read_settings(&from_environment); }

}  // namespace verbena::softdev
