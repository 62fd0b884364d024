// SPDX-License-Identifier: MIT
// The software device as the forwarders see it: the one copy of libverbena-soft.so in the process.
#pragma once

#include <cstdint>

#include "softdev/forward/slots.hpp"

namespace verbena::forward {

/// VERBENA_SOFTDEV: which devices are listed.
enum class listing : std::uint8_t { on, off, only };

/// What the environment says now; a value that makes no sense counts as `on`. Thread-safe.
[[nodiscard]] listing wanted_listing() noexcept;

/// The software device. Threads: immutable once loaded.
struct engine {
  const ibv_device* device = nullptr;  ///< nullptr: there is no software device
  function_table table;
  void* library = nullptr;  ///< a handle for dlsym
};

/// The engine, loaded at the first call: the copy that the process has, else
/// VERBENA_SOFTDEV_LIBRARY, else the file beside this library, else what the loader finds. Not
/// loaded while VERBENA_SOFTDEV is `off`. A failure is reported once on standard error. Blocks and
/// allocates at the first call; thread-safe.
[[nodiscard]] const engine& soft_engine() noexcept;

/// True when `device` is the software device's.
[[nodiscard]] inline bool is_soft(const ibv_device* device) noexcept {
  return device != nullptr && device == soft_engine().device;
}

}  // namespace verbena::forward
