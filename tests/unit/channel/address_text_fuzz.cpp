// SPDX-License-Identifier: MIT
// Texts that programs receive from users: addresses. Each input is passed to all parsers.
#include <cstdint>
#include <string>

#include "tests/fuzz/target.hpp"
#include "verbena/base/guid.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/cm/socket_address.hpp"

namespace verbena {
namespace {

using fuzz::require;

void run_address_text(fuzz::input bytes) {
  const std::string text = fuzz::text_of(bytes);
  if (const auto got = bringup::parse_address(text, 7471)) {
    require(!got->host.empty() && got->host.size() <= 253);
    require(bringup::parse_address(to_string(*got)).value() == *got);
  }
  // Both are functions of the whole text: inet_pton(3) alone would ignore bytes behind a zero.
  const bool has_zero = text.find('\0') != std::string::npos;
  if (const auto got = parse_gid(text)) {
    require(!has_zero && parse_gid(to_string(*got)) == *got);
  }
  if (const auto got = cm::socket_address::parse(text, 17)) {
    require(!has_zero && got->port() == 17);
    require(cm::socket_address::parse(got->host(), 17).value() == *got);
    require(cm::socket_address::from_native(*got->native()).value() == *got);
  }
}

void address_seeds(fuzz::seed_folder& into) {
  into.add("host", "host.example");
  into.add("host_and_port", "host.example:7471");
  into.add("ipv4", "192.0.2.1");
  into.add("ipv4_and_port", "192.0.2.1:80");
  into.add("ipv6", "2001:db8::1");
  into.add("ipv6_and_port", "[2001:db8::1]:65535");
  into.add("mapped", "::ffff:192.0.2.1");
  into.add("zone", "[fe80::1%eth0]:1");
}

const fuzz::target addresses("address_text", run_address_text, address_seeds);

}  // namespace
}  // namespace verbena
