// SPDX-License-Identifier: MIT
// The environment variables of the device with any values. Each input is the value of all.
#include "softdev/host/settings.hpp"

#include <string>

#include "softdev/host/persona.hpp"
#include "softdev/peers/link_options.hpp"
#include "tests/fuzz/target.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

using fuzz::require;

std::string value_of_all;

void run_settings(fuzz::input input) {
  set_log_hook([](log_level, std::string_view line, void*) { require(line.size() < 200); });
  value_of_all = fuzz::text_of(input);
  const std::string value = value_of_all.c_str();  // ends at the first zero byte
  const settings got = read_settings([](const char*) { return value_of_all.c_str(); });
  require((got.listed == listing::off) == (value == "off"));
  require((got.persona == persona_kind::infiniband) == (value == "infiniband"));
  require((got.persona == persona_kind::efa) == (value == "efa"));
  require((got.faults == fault_policy::signal) == (value == "signal"));
  require(got.capture == value && got.captured_bytes >= 64);
  require(parse_route_policy(value).has_value() ==
          (value == "auto" || value == "no_cma" || value == "ring"));
  // The identifier of the host: locally administered, not a group address.
  require((hardware_address(value_of_all)[0] & 3U) == 2);
}

void setting_seeds(fuzz::seed_folder& into) {
  for (const char* const value : {"on", "off", "only", "roce", "infiniband", "efa", "request",
                                  "signal", "auto", "no_cma", "ring", "64", "63", "4294967296"})
    into.add(value, value);
  into.add("empty", "");
  into.add("other", "Off ");
  into.add("prefixes", "10.9.0.0/33,fd00:9::/64,::/0,eth0,fe80::1%eth0,/8");
}

const fuzz::target all_settings("settings", run_settings, setting_seeds);

}  // namespace
}  // namespace verbena::softdev
