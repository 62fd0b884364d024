// SPDX-License-Identifier: MIT
#include "softdev/forward/slots.hpp"

namespace verbena::forward {

const char* name_of(slot which) noexcept {
  static constexpr const char* names[slot_count] = {
#define FORWARD(node, how, result, name, parameters, arguments) #name,
#include "softdev/forward/functions.inc"
#include "softdev/forward/newer.inc"
#undef FORWARD
      "ibv_get_device_list", "ibv_free_device_list",      "ibv_ack_async_event",
      "ibv_import_device",   "verbena_soft_inject_event",
  };
  return names[static_cast<std::size_t>(which)];
}

}  // namespace verbena::forward
