// SPDX-License-Identifier: MIT
// The connection manager's C interface in a process: the manager, and the open device with a
// protection domain. As in librdmacm, all identifiers share them.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "softdev/cm/manager.hpp"

namespace verbena::softdev {

/// Threads: immutable except for the manager, which is thread-safe. Lives as long as the process.
struct cm_process {
  std::uint32_t generation = 0;
  std::unique_ptr<cm::manager> manager;
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
};

/// Returns the object of this process; the first call creates it. A child of fork has its own.
/// Returns nullptr and errno on failure: ENODEV if the device is switched off or has no connection
/// manager (EFA).
[[nodiscard]] cm_process* cm_here();
/// Returns the object of this process, or nullptr if it does not exist yet.
[[nodiscard]] cm_process* known_cm() noexcept;
/// Returns whether the object belongs to this process; if not, sets errno to ENODEV.
[[nodiscard]] bool cm_usable(const cm_process& of) noexcept;

}  // namespace verbena::softdev
