// SPDX-License-Identifier: MIT
// Errors of creating verbs.
#pragma once

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "verbena/base/error.hpp"
#include "verbena/sys/verbs_table.hpp"
#include "verbena/verbs/detail/call.hpp"
#include "verbena/verbs/detail/native_state.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns the error of a creating verb on `object` with the usual cause of its errno.
[[nodiscard]] error creation_error(int code, std::string_view call, std::string_view object);

/// A requested amount and the limit of the device. A negative limit means that there is no limit.
struct requested_amount {
  const char* what;
  std::uint32_t requested;
  int limit;
};
/// Returns the amounts that exceed their limits, as `max_wr 20 exceeds the device's maximum of 10`.
/// Returns an empty string if no amount does.
[[nodiscard]] std::string above_limits(std::initializer_list<requested_amount> amounts);

/// Calls `make(created)`, which makes the owner of a created object. If `make` throws an exception,
/// because memory is exhausted, destroys the object.
template <class Native, class Make>
[[nodiscard]] auto make_owner(const sys::verbs_table& verbs, Native* created, Make make) {
  struct guard {
    const sys::verbs_table& verbs;
    Native* native;
    ~guard() {
      // If this fails, the object leaks.
      if (native != nullptr) static_cast<void>(call(verbs.*native_traits<Native>::destroy, native));
    }
  } unowned{verbs, created};
  auto owner = make(created);
  unowned.native = nullptr;
  return owner;
}

}  // namespace verbena::inline VERBENA_ABI::detail
