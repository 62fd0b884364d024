// SPDX-License-Identifier: MIT
// Messages of a forwarder that no return value can express. A forwarder has no log hook, because it
// is loaded into programs that do not know this project.
#pragma once

#include <cstdint>

namespace verbena::forward {

/// A kind of message. Forwarders of one build agree on the numbers.
enum class warning : std::uint8_t {
  no_adapters,    ///< libibverbs fails to list the hardware
  no_engine,      ///< the software device cannot be loaded
  other_engine,   ///< the software device is of another version
  no_kernel_cm,   ///< /dev/infiniband/rdma_cm cannot be opened
  no_rsockets,    ///< rsocket without the kernel's connection manager
  no_libibverbs,  ///< the library that VERBENA_LIBIBVERBS names cannot be used
  no_libefa,      ///< VERBENA_LIBEFA
  no_librdmacm,   ///< VERBENA_LIBRDMACM
  no_files,       ///< the files of soft0 are not shown
};

/// Writes one line, `verbena: WHAT WHY`, to standard error. A process writes one line of each kind,
/// whichever of its forwarders reports it. Preserves errno. Thread-safe.
void warn_once(warning kind, const char* what, const char* why) noexcept;

}  // namespace verbena::forward
