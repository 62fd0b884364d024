// SPDX-License-Identifier: MIT
#include "softdev/host/settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "softdev/host/permitted_addresses.hpp"
#include "softdev/host/warn_once.hpp"

namespace verbena::softdev {
namespace {

/// Enough for all headers of the shortest packet.
constexpr std::uint32_t least_captured_bytes = 64;

void ignored(const char* rule, std::string_view value) {
  warn_once(std::string(rule) + "; the value '" + std::string(value.substr(0, 40)) +
            "' is ignored");
}

/// Reads a variable. A program with the privileges of another user must not write to files that its
/// caller names, nor open ports for its caller.
const char* from_environment(const char* name) {
  const std::string_view which = name;
  const bool guarded = which.starts_with("VERBENA_SOFTDEV_CAPTURE") ||
                       which.starts_with("VERBENA_SOFTDEV_WIRE") || which == "VERBENA_SOFTDEV_PATH";
  return guarded ? ::secure_getenv(name) : std::getenv(name);
}

/// Splits a list at its commas; omits empty parts.
std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (end > 0) parts.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

/// Sets `number` to the number in the text of a variable if it is at least `least`. Otherwise logs
/// `rule`, unless the text is empty.
template <class Number>
void read_number(const char* text, Number least, const char* rule, Number& number) {
  if (text == nullptr) return;
  const std::string_view value = text;
  const char* const end = value.data() + value.size();
  Number found = 0;
  const auto [stop, wrong] = std::from_chars(value.data(), end, found);
  if (wrong == std::errc() && stop == end && found >= least) {
    number = found;
  } else if (!value.empty()) {
    ignored(rule, value);
  }
}

/// Removes and reports entries that are neither an address nor a possible name of an interface.
void check_list(std::vector<std::string>& list) {
  std::erase_if(list, [](const std::string& each) {
    const bool is_name = each.find('/') == std::string::npos && std::ranges::count(each, ':') < 2;
    if (is_name || address_prefix::from_text(each)) return false;
    ignored(
        "VERBENA_SOFTDEV_WIRE: an address must be like 10.9.0.1, 10.9.0.0/24, fd00::1 or fd00::/64",
        each);
    return true;
  });
}

wire_setting read_wire(const char* (*lookup)(const char* name)) {
  wire_setting result;
  if (const char* text = lookup("VERBENA_SOFTDEV_WIRE"); text != nullptr) {
    const std::string_view value = text;
    result.on = value != "off" && !value.empty();
    if (result.on && value != "on") result.only = parts_of(value);
    check_list(result.only);
    if (result.on && value != "on" && result.only.empty()) {
      ignored("VERBENA_SOFTDEV_WIRE must be off, on or a list of addresses and interfaces", value);
      result.on = false;
    }
  }
  read_number<std::uint16_t>(lookup("VERBENA_SOFTDEV_WIRE_PORT"), 1,
                             "VERBENA_SOFTDEV_WIRE_PORT must be a port number, 1 to 65535",
                             result.port);
  if (const char* text = lookup("VERBENA_SOFTDEV_WIRE_FAULTS"); text != nullptr) {
    std::string wrong;
    if (const auto found = wire::parse_faults(text, wrong))
      result.faults = *found;
    else
      ignored(("VERBENA_SOFTDEV_WIRE_FAULTS: " + wrong).c_str(), text);
  }
  if (const char* text = lookup("VERBENA_SOFTDEV_WIRE_KEY_FILE"); text != nullptr)
    result.key_file = text;
  if (const char* text = lookup("VERBENA_SOFTDEV_PATH"); text != nullptr) {
    const std::string_view value = text;
    if (value == "wire" && result.on) {
      result.forced = true;
    } else if (value == "wire") {
      ignored("VERBENA_SOFTDEV_PATH needs VERBENA_SOFTDEV_WIRE=on", value);
    } else if (value != "auto" && !value.empty()) {
      ignored("VERBENA_SOFTDEV_PATH must be auto or wire", value);
    }
  }
  return result;
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
      result.persona = persona_kind::infiniband;
    } else if (value == "efa") {
      result.persona = persona_kind::efa;
    } else if (value != "roce" && !value.empty()) {
      ignored("VERBENA_SOFTDEV_PERSONA must be roce, infiniband or efa", value);
    }
  }
  if (const char* text = lookup("VERBENA_SOFTDEV_PORTS"); text != nullptr) {
    const std::string_view value = text;
    if (value.size() == 1 && value[0] >= '1' && value[0] <= '0' + port_state::max_ports) {
      result.ports = static_cast<std::uint8_t>(value[0] - '0');
    } else if (!value.empty()) {
      ignored("VERBENA_SOFTDEV_PORTS must be a number of ports, 1 to 4", value);
    }
  }
  if (const char* text = lookup("VERBENA_SOFTDEV_PAGE_FAULTS"); text != nullptr) {
    const std::string_view value = text;
    if (value == "signal") {
      result.faults = fault_policy::signal;
    } else if (value != "request" && !value.empty()) {
      ignored("VERBENA_SOFTDEV_PAGE_FAULTS must be request or signal", value);
    }
  }
  if (const char* text = lookup("VERBENA_SOFTDEV_CAPTURE"); text != nullptr) result.capture = text;
  read_number<std::uint32_t>(lookup("VERBENA_SOFTDEV_CAPTURE_SNAPLEN"), least_captured_bytes,
                             "VERBENA_SOFTDEV_CAPTURE_SNAPLEN must be a number of at least 64",
                             result.captured_bytes);
  result.wire = read_wire(lookup);
  return result;
}

settings current_settings() { return read_settings(&from_environment); }

}  // namespace verbena::softdev
