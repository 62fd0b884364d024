// SPDX-License-Identifier: MIT
// The source location where a lazy_completion was polled, and whether it is still valid. Only in
// checked builds.
#pragma once

#include "verbena/base/call_site.hpp"
#include "verbena/base/config.hpp"
#include "verbena/verbs/detail/exclusive_use.hpp"

namespace verbena::inline VERBENA_ABI::detail {

#ifdef VERBENA_CHECKED

/// The source location of the poll of one lazy_completion. Threads: one thread at a time.
class polled_place {
 public:
  explicit polled_place(call_site polled) noexcept : polled_(polled) {}
  [[nodiscard]] call_site place() const noexcept { return polled_; }
  void leave() noexcept { gone_ = true; }
  /// Stops the program, with both source locations, if leave() was called.
  void check(call_site where) const {
    check_valid(!gone_, polled_,
                "a completion of an extended completion queue was read after ibv_next_poll or "
                "ibv_end_poll: copy what is needed before",
                where);
  }

 private:
  call_site polled_;
  bool gone_ = false;
};

#else

/// Has no effect in builds that are not checked. Threads: immutable value.
class polled_place {
 public:
  explicit polled_place(call_site) noexcept {}
  [[gnu::always_inline]] inline void check(call_site) const noexcept {}
};

#endif

}  // namespace verbena::inline VERBENA_ABI::detail
