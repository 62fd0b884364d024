// SPDX-License-Identifier: MIT
// Calls of verbs. Converts their four error conventions to one.
#pragma once

#include <cerrno>
#include <type_traits>

#include "verbena/sys/verb.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The status of a verb: whether it failed, and the errno (0: none reported).
struct verb_status {
  bool failed = false;
  int code = 0;
};

/// A new native object, or nullptr and the errno (0: none reported).
template <class Native>
struct created {
  Native* native = nullptr;
  int code = 0;
  explicit operator bool() const noexcept { return native != nullptr; }
};

/// Calls a verb that returns a pointer: `call_create(verbs.alloc_pd, context)`.
template <class Verb, class... Arguments>
auto call_create(const Verb& verb, Arguments... arguments) {
  static_assert(Verb::convention == sys::failure::null_and_errno);
  using native_type = std::remove_pointer_t<decltype(verb(arguments...))>;
  errno = 0;
  native_type* const made = verb(arguments...);
  return created<native_type>{made, made != nullptr ? 0 : errno};
}

/// Calls a verb that returns success or failure: `call(verbs.dealloc_pd, pd)`.
template <class Verb, class... Arguments>
verb_status call(const Verb& verb, Arguments... arguments) {
  if constexpr (Verb::convention == sys::failure::positive_errno) {
    const int code = verb(arguments...);
    // Some providers return -1 and set errno where the man page promises the errno itself.
    return {code != 0, code > 0 ? code : (code < 0 ? errno : 0)};
  } else {
    static_assert(Verb::convention == sys::failure::minus_one_and_errno);
    errno = 0;
    const int status = verb(arguments...);
    // ibv_close_device and others: -1 with errno; some providers return the errno itself.
    return {status != 0, status > 0 ? status : (status < 0 ? errno : 0)};
  }
}

}  // namespace verbena::inline VERBENA_ABI::detail
