// SPDX-License-Identifier: MIT
// Copies between address spaces by process_vm_readv(2) and process_vm_writev(2), called raw so that
// sanitizers do not look into memory that is shared with a peer.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::softdev {

enum class copy_status : std::uint8_t {
  ok,
  not_permitted,  ///< EPERM or ENOSYS: this route is closed
  process_gone,   ///< ESRCH
  fault,          ///< some address is not mapped there or here; `copied` bytes were copied
  other,          ///< e.g. ENOMEM
};

struct copy_outcome {
  copy_status status = copy_status::ok;
  std::size_t copied = 0;
};

/// Copies from `remote`, addresses of process `pid`, into `local`. Continues after partial
/// transfers. Blocks only as long as the kernel copies. Precondition: `local` has at
/// least as many bytes as `remote`. Thread-safe, does not allocate.
[[nodiscard]] copy_outcome remote_read(pid_t pid, std::span<const iovec> local,
                                       std::span<const iovec> remote) noexcept;
/// Copies from `local` to `remote`, in the order of the lists.
[[nodiscard]] copy_outcome remote_write(pid_t pid, std::span<const iovec> local,
                                        std::span<const iovec> remote) noexcept;

/// A range of another process, for the lists above.
[[nodiscard]] iovec place_in_process(std::uint64_t address, std::size_t bytes) noexcept;

/// Which of the two calls work towards one process.
struct copy_routes {
  bool read = false;
  bool write = false;
};

/// A place in a process that its peers may read and write to find out whether they can.
struct probe_place {
  std::uint64_t source_address = 0;  ///< holds `source_value`
  std::uint64_t source_value = 0;
  std::uint64_t sink_address = 0;  ///< eight bytes that nobody reads
};

/// Tries both calls on `place` of process `pid`; a wrong value read means no route.
[[nodiscard]] copy_routes probe_copy(pid_t pid, const probe_place& place) noexcept;

}  // namespace verbena::softdev
