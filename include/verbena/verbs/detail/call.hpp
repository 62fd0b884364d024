// SPDX-License-Identifier: MIT
// Calls verbs and converts their error conventions to a common one.
#pragma once

#include <cerrno>
#include <type_traits>

#include "verbena/sys/verb.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The result of a verb: whether it failed, and the errno. The code is 0 if the verb failed without
/// an errno.
struct verb_status {
  bool failed = false;
  int code = 0;
};

/// A new object of the C API, or nullptr and the errno. The code is 0 if the verb failed without an
/// errno.
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
    // The man pages define the errno as the return value. Some providers return -1 and set errno.
    return {code != 0, code > 0 ? code : (code < 0 ? errno : 0)};
  } else {
    static_assert(Verb::convention == sys::failure::minus_one_and_errno);
    errno = 0;
    const int status = verb(arguments...);
    // ibv_close_device and others return -1 and set errno. Some providers return the errno.
    return {status != 0, status > 0 ? status : (status < 0 ? errno : 0)};
  }
}

}  // namespace verbena::inline VERBENA_ABI::detail
