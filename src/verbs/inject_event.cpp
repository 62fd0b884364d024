// SPDX-License-Identifier: MIT
#include "verbena/verbs/inject_event.hpp"

#include <fmt/format.h>

#include <cerrno>

namespace verbena::inline VERBENA_ABI {

result<void> inject_event(const context& device, const std::string& command) {
  constexpr const char* call = "verbena_soft_inject_event";
  const auto function = device.provider().soft_inject_event;
  if (function == nullptr)
    return error::not_supported(call, device.name(),
                                "events can be injected into the software device only: open soft0");
  if (const int code = function(device.native(), command.c_str()); code != 0)
    return error::from_errno(
        code, call, device.name(),
        code == EINVAL ? fmt::format("the software device does not support the command '{}'",
                                     command.substr(0, 80))
                       : std::string());
  return {};
}

}  // namespace verbena::inline VERBENA_ABI
