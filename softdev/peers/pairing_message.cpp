// SPDX-License-Identifier: MIT
#include "softdev/peers/pairing_message.hpp"

#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "softdev/shm/segment_layout.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {

namespace {
/// A message on the socket. The first three members keep their place in all versions.
struct wire_message {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint16_t kind;
  std::uint16_t reserved;
  std::uint64_t id;
  std::uint64_t bytes;
  std::uint64_t generation;
  std::uint32_t slot;
  std::uint32_t ring_bytes;
  std::uint64_t probe_source;
  std::uint64_t probe_value;
  std::uint64_t probe_sink;
  std::uint8_t spare[56];
};
static_assert(sizeof(wire_message) == 128 && std::is_trivially_copyable_v<wire_message>);

// Room for more descriptors than any message carries, so that surplus ones arrive and are closed.
constexpr std::size_t control_descriptors = 16;
using control_buffer = std::array<char, CMSG_SPACE(control_descriptors * sizeof(int))>;

link_message decode(const wire_message& wire) noexcept {
  return {.kind = static_cast<message_kind>(wire.kind),
          .id = wire.id,
          .bytes = wire.bytes,
          .version = wire.version,
          .slot = wire.slot,
          .generation = wire.generation,
          .ring_bytes = wire.ring_bytes,
          .probe = {.source_address = wire.probe_source,
                    .source_value = wire.probe_value,
                    .sink_address = wire.probe_sink}};
}

/// Moves all descriptors of a message to `out`; closes those that do not fit. Returns the number of
/// received descriptors.
std::size_t take_descriptors(msghdr& header, received_message& out) noexcept {
  std::size_t count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t index = 0; index < here; ++index) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + index * sizeof(int), sizeof fd);
      unique_fd owned(fd);
      if (count < out.descriptors.size()) out.descriptors[count] = std::move(owned);
      ++count;
    }
  }
  return count;
}

/// Logs once that a filter of system calls denies a call that peers need.
void note_denied(const char* line) noexcept {
  if (errno != EPERM && errno != EACCES && errno != ENOSYS) return;
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) log(log_level::warning, line);
}

bool is_kind(std::uint16_t kind) noexcept {
  return kind >= static_cast<std::uint16_t>(message_kind::hello) &&
         kind <= static_cast<std::uint16_t>(message_kind::wake);
}
}  // namespace

std::size_t descriptors_of(message_kind kind) noexcept {
  switch (kind) {
    case message_kind::hello:
      return 3;
    case message_kind::give_arena:
    case message_kind::give_channel:
      return 1;
    default:
      return 0;
  }
}

send_status send_message(int socket, const link_message& message,
                         std::span<const int> descriptors) noexcept {
  wire_message wire{};
  wire.magic = segment_magic;
  wire.version = layout_version;
  wire.kind = static_cast<std::uint16_t>(message.kind);
  wire.id = message.id;
  wire.bytes = message.bytes;
  wire.generation = message.generation;
  wire.slot = message.slot;
  wire.ring_bytes = message.ring_bytes;
  wire.probe_source = message.probe.source_address;
  wire.probe_value = message.probe.source_value;
  wire.probe_sink = message.probe.sink_address;

  iovec data{&wire, sizeof wire};
  alignas(cmsghdr) control_buffer control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!descriptors.empty() && descriptors.size() <= max_descriptors) {
    const std::size_t bytes = descriptors.size_bytes();
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(part), descriptors.data(), bytes);
  }
  for (;;) {
    if (::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return send_status::sent;
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return send_status::full;
    // ETOOMANYREFS: too many descriptors of this process are in flight; peers receive them later.
    if (errno == ENOBUFS || errno == ETOOMANYREFS) return send_status::delayed;
    note_denied(
        "soft0: sendmsg(2) is denied: no other process can be reached; permit it in the filter of "
        "system calls (seccomp)");
    return send_status::closed;
  }
}

void send_wake(int socket) noexcept {
  // If the buffer is full, the peer's socket is readable already.
  static_cast<void>(send_message(socket, {.kind = message_kind::wake}, {}));
}

received_message receive_message(int socket) noexcept {
  received_message out;
  wire_message wire{};
  iovec data{&wire, sizeof wire};
  alignas(cmsghdr) control_buffer control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t length = -1;
  do {
    length = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length < 0) {
    out.status = errno == EAGAIN ? receive_status::empty : receive_status::closed;
    note_denied(
        "soft0: recvmsg(2) is denied: no other process can be reached; permit it in the filter of "
        "system calls (seccomp)");
    return out;
  }
  const std::size_t count = take_descriptors(header, out);
  if (length == 0) {
    out.status = receive_status::closed;
    return out;
  }
  out.status = receive_status::malformed;
  const bool whole = static_cast<std::size_t>(length) == sizeof wire &&
                     (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (whole && wire.magic == segment_magic && is_kind(wire.kind)) {
    const auto kind = static_cast<message_kind>(wire.kind);
    if (wire.version != layout_version) {
      // Only the first members mean the same in other versions.
      if (kind == message_kind::hello || kind == message_kind::refuse_version) {
        out.message.kind = kind;
        out.message.version = wire.version;
        out.status = receive_status::received;
      }
    } else if (count == descriptors_of(kind)) {
      out.message = decode(wire);
      out.status = receive_status::received;
    }
  }
  const bool keep = out.status == receive_status::received && wire.version == layout_version;
  if (!keep) out.descriptors = {};
  return out;
}

}  // namespace verbena::softdev
