// SPDX-License-Identifier: MIT
// Which connection manager this process has: the kernel's behind librdmacm, or soft0's. All or
// nothing, since librdmacm looks behind the structs that a program sees.
#pragma once

#include <atomic>

#include "softdev/forward/slots.hpp"

namespace verbena::forward {

/// The library that has the functions of librdmacm. Threads: immutable.
struct connection_manager {
  bool soft = false;        ///< soft0's
  void* library = nullptr;  ///< a handle for dlsym; nullptr: there is none
};

/// The choice, made at the first call: soft0's if VERBENA_SOFTDEV is `only`, or if there is no
/// adapter or no access to /dev/infiniband/rdma_cm; the kernel's if VERBENA_SOFTDEV is `off`, and
/// otherwise. Adapters that cannot be used this way are reported once on standard error. Blocks and
/// allocates at the first call; thread-safe.
[[nodiscard]] const connection_manager& chosen_manager() noexcept;

/// The chosen library's `name`, or nullptr; remembered in `known`. Thread-safe.
[[nodiscard]] plain_function manager_function(std::atomic<plain_function>& known,
                                              const char* name) noexcept;

}  // namespace verbena::forward
