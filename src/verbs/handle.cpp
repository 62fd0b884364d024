// SPDX-License-Identifier: MIT
// Log messages of handles, and objects that cannot be destroyed.
#include "verbena/verbs/handle.hpp"

#include <fmt/format.h>

#include <mutex>
#include <string>
#include <vector>

#include "verbena/base/log.hpp"
#include "verbena/verbs/detail/native_state.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

std::string cause_of(int code, std::string_view in_use) {
  switch (code) {
    case EBUSY:
    case EINVAL:  // rxe returns EINVAL for a completion queue in use
      return std::string(in_use);
    case ENODEV:
    case EIO:
      return "the device was removed or has failed";
    default:
      return {};
  }
}

}  // namespace

void log_creation(const std::string& object, ownership owner) {
  if (is_logged(log_level::debug))
    log(log_level::debug, (owner == ownership::take ? "created " : "borrowed ") + object);
}

void log_destruction(const std::string& object) {
  if (is_logged(log_level::debug)) log(log_level::debug, "destroyed " + object);
}

void report_refused_teardown(std::string_view call, const std::string& object, int code,
                             std::string_view in_use) {
  const auto refused = error::from_errno(code, call, object, cause_of(code, in_use));
  log(log_level::error,
      fmt::format("{}; the object and its parents are kept until the process ends",
                  refused.message()));
}

void abandon(std::shared_ptr<const void> object) {
  // The vector is never destroyed, because the objects must exist until the process ends. It is
  // reachable, so that leak checkers do not report the objects.
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(object));
}

error still_shared(std::string_view call, const std::string& object, long others) {
  return error::from_errno(EBUSY, call, object,
                           fmt::format("the verb was not called: {} other handles of the object, "
                                       "or objects created from it, exist; destroy them first",
                                       others));
}

error refused_close(std::string_view call, const std::string& object, int code,
                    std::string_view in_use) {
  return error::from_errno(code, call, object, cause_of(code, in_use));
}

}  // namespace verbena::inline VERBENA_ABI::detail
