// SPDX-License-Identifier: MIT
#include "softdev/ipc/process_memory.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace verbena::softdev {

namespace {
constexpr std::size_t vectors_per_call = 64;
constexpr std::size_t bytes_per_call = std::size_t{1} << 30;  // below the kernel's MAX_RW_COUNT

copy_status status_of(int code) noexcept {
  switch (code) {
    case EPERM:
    case EACCES:
    case ENOSYS:
      return copy_status::not_permitted;
    case ESRCH:
      return copy_status::process_gone;
    case EFAULT:
      return copy_status::fault;
    default:
      return copy_status::other;
  }
}

/// A position in a list of vectors.
struct cursor {
  std::span<const iovec> vectors;
  std::size_t offset = 0;  ///< in the first vector

  /// Fills `out` with at most `limit` bytes from the position; returns the numbers of vectors and
  /// bytes.
  std::pair<std::size_t, std::size_t> fill(std::span<iovec> out, std::size_t limit) const noexcept {
    std::size_t count = 0;
    std::size_t bytes = 0;
    std::size_t skip = offset;
    for (const iovec& vector : vectors) {
      if (count == out.size() || bytes == limit) break;
      const std::size_t length = std::min(vector.iov_len - skip, limit - bytes);
      if (length != 0) {
        out[count++] = {static_cast<std::byte*>(vector.iov_base) + skip, length};
        bytes += length;
      }
      skip = 0;
    }
    return {count, bytes};
  }

  void advance(std::size_t bytes) noexcept {
    while (!vectors.empty() && bytes >= vectors.front().iov_len - offset) {
      bytes -= vectors.front().iov_len - offset;
      vectors = vectors.subspan(1);
      offset = 0;
    }
    if (!vectors.empty()) offset += bytes;
  }
};

copy_outcome copy(long call, pid_t pid, std::span<const iovec> local,
                  std::span<const iovec> remote) noexcept {
  std::array<iovec, vectors_per_call> here;
  std::array<iovec, vectors_per_call> there;
  cursor at{local};
  cursor from{remote};
  std::size_t done = 0;
  while (true) {
    const auto [count, length] = at.fill(here, bytes_per_call);
    const auto [places, room] = from.fill(there, length);
    if (room == 0) return {copy_status::ok, done};
    const long moved =
        ::syscall(call, pid, here.data(), count, there.data(), places, 0UL);  // the shorter list
    if (moved < 0) {
      if (errno == EINTR) continue;
      return {status_of(errno), done};
    }
    if (moved == 0) return {copy_status::fault, done};
    done += static_cast<std::size_t>(moved);
    at.advance(static_cast<std::size_t>(moved));
    from.advance(static_cast<std::size_t>(moved));
  }
}
}  // namespace

copy_outcome remote_read(pid_t pid, std::span<const iovec> local,
                         std::span<const iovec> remote) noexcept {
  return copy(SYS_process_vm_readv, pid, local, remote);
}

copy_outcome remote_write(pid_t pid, std::span<const iovec> local,
                          std::span<const iovec> remote) noexcept {
  return copy(SYS_process_vm_writev, pid, local, remote);
}

iovec place_in_process(std::uint64_t address, std::size_t bytes) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process
  return {reinterpret_cast<void*>(address), bytes};
}

copy_routes probe_copy(pid_t pid, const probe_place& place) noexcept {
  std::uint64_t value = ~place.source_value;
  const iovec local{&value, sizeof value};
  copy_routes routes;
  const iovec source = place_in_process(place.source_address, sizeof value);
  const auto read = remote_read(pid, {&local, 1}, {&source, 1});
  routes.read = read.status == copy_status::ok && value == place.source_value;
  if (routes.read) {
    const iovec sink = place_in_process(place.sink_address, sizeof value);
    const auto wrote = remote_write(pid, {&local, 1}, {&sink, 1});
    routes.write = wrote.status == copy_status::ok;
  }
  return routes;
}

}  // namespace verbena::softdev
