// SPDX-License-Identifier: MIT
#include "softdev/shim/guard.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <new>
#include <system_error>

#include "softdev/host/warn_once.hpp"

namespace verbena::softdev {

int errno_of(const std::exception& thrown) noexcept {
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) {
    // A literal instead of a string: memory is exhausted.
    warn_once(
        "soft0: a call failed with ENOMEM: the process cannot allocate memory; free some, or raise "
        "RLIMIT_AS (ulimit -v) or the memory limit of the control group");
    return ENOMEM;
  }
  const auto* const system = dynamic_cast<const std::system_error*>(&thrown);
  const int code = system != nullptr && system->code().value() > 0 ? system->code().value() : EIO;
  std::array<char, 512> line;
  std::snprintf(line.data(), line.size(), "soft0: a call failed because of an exception: %s",
                thrown.what());
  warn_once(line.data());
  return code;
}

}  // namespace verbena::softdev
