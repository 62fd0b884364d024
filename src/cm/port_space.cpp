// SPDX-License-Identifier: MIT
#include "verbena/cm/port_space.hpp"

#include "src/verbs/text.hpp"

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
  return verbena::detail::unknown_value(static_cast<std::int64_t>(space));
}

}  // namespace verbena::inline VERBENA_ABI::cm
