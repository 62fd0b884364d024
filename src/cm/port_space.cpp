// SPDX-License-Identifier: MIT
#include "verbena/cm/port_space.hpp"

namespace verbena::inline VERBENA_ABI::cm {

std::string to_string(port_space space) {
  switch (space) {
    case port_space::ipoib:
      return "IPOIB";
    case port_space::tcp:
      return "TCP";
    case port_space::udp:
      return "UDP";
    case port_space::ib:
      return "IB";
  }
  return "unknown (" + std::to_string(static_cast<std::uint32_t>(space)) + ")";
}

}  // namespace verbena::inline VERBENA_ABI::cm
