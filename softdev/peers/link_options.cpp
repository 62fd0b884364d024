// SPDX-License-Identifier: MIT
#include "softdev/peers/link_options.hpp"

#include <cstdlib>
#include <string>

namespace verbena::softdev {

result<route_policy> parse_route_policy(std::string_view text) {
  if (text == "auto") return route_policy::automatic;
  if (text == "no_cma") return route_policy::no_cma;
  if (text == "ring") return route_policy::ring;
  return error::invalid_argument("VERBENA_SOFTDEV_ROUTE", std::string(text),
                                 "it must be auto, no_cma or ring");
}

result<link_options> link_options::from_environment() {
  link_options options;
  if (const char* route = std::getenv("VERBENA_SOFTDEV_ROUTE")) {
    VERBENA_TRY(options.route, parse_route_policy(route));
  }
  return options;
}

}  // namespace verbena::softdev
