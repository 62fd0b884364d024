// SPDX-License-Identifier: MIT
#include "verbena/verbs/provoke.hpp"

#include <cerrno>

namespace verbena::inline VERBENA_ABI {

result<void> provoke(const context& device, const std::string& command) {
  constexpr const char* call = "verbena_soft_provoke";
  const auto function = device.provider().soft_provoke;
  if (function == nullptr)
    return error::not_supported(call, device.name(),
                                "only the software device does what it is told: open soft0");
  if (const int code = function(device.native(), command.c_str()); code != 0)
    return error::from_errno(
        code, call, device.name(),
        code == EINVAL ? "the software device knows no command '" + command.substr(0, 80) + "'"
                       : std::string());
  return {};
}

}  // namespace verbena::inline VERBENA_ABI
