// SPDX-License-Identifier: MIT
// What the connection manager's C interface has once for each process: the manager, and the opened
// device with a protection domain that all identifiers share, as librdmacm gives them.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "softdev/cm/manager.hpp"

namespace verbena::softdev {

/// Threads: immutable, but for the manager, which is thread-safe. Lives as long as the process.
struct cm_process {
  std::uint32_t generation = 0;
  std::unique_ptr<cm::manager> manager;
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
};

/// This process's; made at the first call. A child of fork gets its own. nullptr with errno: ENODEV
/// when the device is switched off or has no connection manager (EFA).
[[nodiscard]] cm_process* cm_here();
/// This process's, if it was made; else nullptr.
[[nodiscard]] cm_process* known_cm() noexcept;
/// True when the object belongs to this process; else sets errno to ENODEV.
[[nodiscard]] bool cm_usable(const cm_process& of) noexcept;

}  // namespace verbena::softdev
