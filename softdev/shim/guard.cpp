// SPDX-License-Identifier: MIT
#include "softdev/shim/guard.hpp"

#include <cerrno>
#include <new>
#include <system_error>

#include "verbena/base/log.hpp"

namespace verbena::softdev {

int errno_of(const std::exception& thrown) noexcept {
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) {
    // Without a string: there is no memory for one.
    log(log_level::warning,
        "soft0: a call failed with ENOMEM: the process cannot allocate memory; free some, or raise "
        "RLIMIT_AS (ulimit -v) or the memory limit of the control group");
    return ENOMEM;
  }
  const auto* const system = dynamic_cast<const std::system_error*>(&thrown);
  const int code = system != nullptr && system->code().value() > 0 ? system->code().value() : EIO;
  log(log_level::warning, "soft0: a call failed because of an exception:");
  log(log_level::warning, thrown.what());
  return code;
}

}  // namespace verbena::softdev
