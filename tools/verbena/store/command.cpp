// SPDX-License-Identifier: MIT
#include "tools/verbena/store/command.hpp"

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tools/verbena/signals.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/net/store.hpp"

namespace verbena::tool {

int execute(const store_options& options) {
  const awaited_signals signals({SIGINT, SIGTERM});
  const auto at = bringup::parse_address(options.listen);
  if (!at) {
    std::cerr << "verbena store: " << at.error().message() << '\n';
    return 2;
  }
  const char* const secret = std::getenv("VERBENA_SECRET");  // NOLINT(concurrency-mt-unsafe)
  const auto store =
      net::store::open(*at, {.secret = secret != nullptr ? std::string(secret) : std::string()});
  if (!store) {
    std::cerr << "verbena store: " << store.error().message() << '\n';
    return 1;
  }
  std::cout << "VERBENA_STORE=" << to_string(store->local_address()) << '\n' << std::flush;
  static_cast<void>(signals.wait());
  const auto counted = store->statistics();
  std::cerr << "verbena store: " << counted.accepted << " connections, " << counted.refused
            << " refused, " << counted.exchanges << " exchanges, " << counted.failures
            << " failed groups\n";
  return 0;
}

}  // namespace verbena::tool
