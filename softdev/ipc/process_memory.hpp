// SPDX-License-Identifier: MIT
// Copies between address spaces by process_vm_readv(2) and process_vm_writev(2). They are called by
// syscall(2), so that sanitizers do not check memory that is shared with a peer.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::softdev {

enum class copy_status : std::uint8_t {
  ok,
  not_permitted,  ///< EPERM, EACCES or ENOSYS: this kind of copy is not available
  process_gone,   ///< ESRCH
  fault,          ///< an address is not mapped in one of the processes; `copied` is valid
  other,          ///< e.g. ENOMEM
};

struct copy_outcome {
  copy_status status = copy_status::ok;
  std::size_t copied = 0;
};

/// Copies from `remote`, which is in process `pid`, into `local`. Continues after partial
/// transfers. Blocks only while the kernel copies. Precondition: `local` has at least as many bytes
/// as `remote`. Thread-safe; does not allocate.
[[nodiscard]] copy_outcome remote_read(pid_t pid, std::span<const iovec> local,
                                       std::span<const iovec> remote) noexcept;
/// Copies from `local` to `remote`, which is in process `pid`, in the order of the lists.
[[nodiscard]] copy_outcome remote_write(pid_t pid, std::span<const iovec> local,
                                        std::span<const iovec> remote) noexcept;

/// Returns an element of a `remote` list: a range of addresses of another process.
[[nodiscard]] iovec place_in_process(std::uint64_t address, std::size_t bytes) noexcept;

/// The calls that work for one process.
struct copy_routes {
  bool read = false;
  bool write = false;
};

/// Memory of a process that its peers access to probe which calls work.
struct probe_place {
  std::uint64_t source_address = 0;  ///< holds `source_value`
  std::uint64_t source_value = 0;
  std::uint64_t sink_address = 0;  ///< eight bytes that are never read
};

/// Tries both calls on `place` of process `pid`. If the value read is wrong, no call is usable.
[[nodiscard]] copy_routes probe_copy(pid_t pid, const probe_place& place) noexcept;

}  // namespace verbena::softdev
