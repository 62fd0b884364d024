// SPDX-License-Identifier: MIT
// The connection manager of this process: the kernel's, through librdmacm, or soft0's. They cannot
// be mixed, because librdmacm accesses memory behind its public structs.
#pragma once

#include <atomic>

#include "softdev/forward/slots.hpp"

namespace verbena::forward {

/// The library that has the functions of librdmacm. Threads: immutable.
struct connection_manager {
  bool soft = false;        ///< soft0's
  void* library = nullptr;  ///< a handle for dlsym; nullptr if not found
};

/// Returns the connection manager, which the first call chooses. If VERBENA_SOFTDEV is `only`, it
/// is soft0's; if `off`, the kernel's. Otherwise it is soft0's if there is no adapter or no access
/// to /dev/infiniband/rdma_cm, else the kernel's. If there are adapters but no access, reports that
/// once on standard error. The first call blocks and allocates. Thread-safe.
[[nodiscard]] const connection_manager& chosen_manager() noexcept;

/// Returns the function `name` of the chosen library, or nullptr. Caches it in `known`.
/// Thread-safe.
[[nodiscard]] plain_function manager_function(std::atomic<plain_function>& known,
                                              const char* name) noexcept;

}  // namespace verbena::forward
