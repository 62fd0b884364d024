// SPDX-License-Identifier: MIT
#include "src/verbs/ports.hpp"

#include <cstdint>

#include "verbena/verbs/device_attributes.hpp"

namespace verbena::inline VERBENA_ABI::detail {

result<std::vector<port_attributes>> query_ports(const context& device) {
  VERBENA_TRY(const auto attributes, device.query());
  std::vector<port_attributes> ports;
  ports.reserve(attributes.port_count());
  for (unsigned number = 1; number <= attributes.port_count(); ++number) {
    VERBENA_TRY(const auto port, device.query_port(port_number(static_cast<std::uint8_t>(number))));
    ports.push_back(port);
  }
  return ports;
}

}  // namespace verbena::inline VERBENA_ABI::detail
