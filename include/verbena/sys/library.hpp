// SPDX-License-Identifier: MIT
// Shared libraries of rdma-core, loaded at first use and never unloaded.
#pragma once

#include <cstdint>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::sys {

/// The shared libraries that parts of this library need at run time.
enum class rdma_library : std::uint8_t {
  ibverbs,  ///< libibverbs.so.1
  rdmacm,   ///< librdmacm.so.1
  efa,      ///< libefa.so.1
};

/// The dlopen(3) handle of a system library. The environment variables VERBENA_LIBIBVERBS,
/// VERBENA_LIBRDMACM and VERBENA_LIBEFA name a file to load instead.
///
/// Loaded with RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE. Errors: `unavailable`; the message names the
/// package to install. Thread-safe; the first call blocks while the file is loaded.
[[nodiscard]] result<void*> load_system_library(rdma_library which);

/// The handle of libverbena-soft.so, the software device. VERBENA_SOFTDEV_LIBRARY names a file to
/// load instead of the one that was built or installed with this library.
///
/// Errors: `unavailable`. Thread-safe; the first call blocks while the file is loaded.
[[nodiscard]] result<void*> load_soft_device_library();

}  // namespace verbena::inline VERBENA_ABI::sys
