// SPDX-License-Identifier: MIT
// The software device of the forwarders: the only copy of libverbena-soft.so in the process.
#pragma once

#include <cstdint>

#include "softdev/forward/slots.hpp"

namespace verbena::forward {

/// VERBENA_SOFTDEV: the devices to list.
enum class listing : std::uint8_t { on, off, only };

/// Returns the current value of VERBENA_SOFTDEV; an invalid value counts as `on`. Thread-safe.
[[nodiscard]] listing wanted_listing() noexcept;

/// The software device. Threads: immutable once loaded.
struct engine {
  const ibv_device* device = nullptr;  ///< nullptr: there is no software device
  function_table table;
  void* library = nullptr;  ///< a handle for dlsym
};

/// Returns the engine; the first call loads it: the copy that the process has, else
/// VERBENA_SOFTDEV_LIBRARY, else the file next to this library, else the one that the loader finds.
/// Does not load it while VERBENA_SOFTDEV is `off`. Reports a failure once on standard error. The
/// first call blocks and allocates. Thread-safe.
[[nodiscard]] const engine& soft_engine() noexcept;

/// Returns whether `device` is the software device.
[[nodiscard]] inline bool is_soft(const ibv_device* device) noexcept {
  return device != nullptr && device == soft_engine().device;
}

}  // namespace verbena::forward
