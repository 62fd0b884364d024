// SPDX-License-Identifier: MIT
// Shared libraries of rdma-core. They are loaded at first use and never unloaded.
#pragma once

#include <cstdint>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::sys {

/// The shared libraries that this library loads at run time.
enum class rdma_library : std::uint8_t {
  ibverbs,  ///< libibverbs.so.1
  rdmacm,   ///< librdmacm.so.1
  efa,      ///< libefa.so.1
};

/// Loads a system library and returns its dlopen(3) handle. The environment variables
/// VERBENA_LIBIBVERBS, VERBENA_LIBRDMACM and VERBENA_LIBEFA name files to load instead.
///
/// Flags: RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE. Errors: `unavailable`; the message names the
/// package to install. Thread-safe. Blocks while the file is loaded.
[[nodiscard]] result<void*> load_system_library(rdma_library which);

/// Loads libverbena-soft.so, the software device, and returns its dlopen(3) handle.
/// VERBENA_SOFTDEV_LIBRARY names a file to load instead of the built or installed one.
///
/// Errors: `unavailable`. Thread-safe. Blocks while the file is loaded.
[[nodiscard]] result<void*> load_soft_device_library();

}  // namespace verbena::inline VERBENA_ABI::sys
