// SPDX-License-Identifier: MIT
#include "softdev/ipc/local_socket.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {
namespace {

constexpr uid_t default_overflow_user = 65534;
constexpr std::uint64_t all_users = 0xffff'ffff;  // user ID -1 does not exist

// The first bytes of a small file; empty if it cannot be read.
struct file_text {
  std::array<char, 4096> bytes;
  std::size_t length = 0;

  explicit file_text(const char* path) noexcept {
    const unique_fd file(::open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t got = file ? ::read(file.get(), bytes.data(), bytes.size()) : -1;
    if (got > 0) length = static_cast<std::size_t>(got);
  }
  // Reads the next number at or after `at` and moves `at` behind it. Returns false at the end.
  [[nodiscard]] bool next(std::size_t& at, std::uint64_t& number) const noexcept {
    while (at < length && (bytes[at] < '0' || bytes[at] > '9')) ++at;
    const auto [end, failed] = std::from_chars(bytes.data() + at, bytes.data() + length, number);
    if (at >= length || failed != std::errc()) return false;
    at = static_cast<std::size_t>(end - bytes.data());
    return true;
  }
};

uid_t overflow_user() noexcept {
  const file_text text("/proc/sys/kernel/overflowuid");
  std::size_t at = 0;
  std::uint64_t number = 0;
  return text.next(at, number) ? static_cast<uid_t>(number) : default_overflow_user;
}

// Returns whether this user namespace maps every user ID of the host. If it does, no other user
// appears as the overflow user ID.
bool namespace_maps_all_users() noexcept {
  const file_text text("/proc/self/uid_map");
  std::size_t at = 0;
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  std::uint64_t mapped = 0;
  while (text.next(at, inside) && text.next(at, outside) && text.next(at, count)) mapped += count;
  return mapped >= all_users;
}

}  // namespace

local_name::local_name(const char* format, ...) noexcept {
  // An abstract name begins with a zero byte.
  constexpr std::size_t room = sizeof address_.sun_path - 1;
  address_.sun_family = AF_UNIX;
  std::va_list arguments;
  va_start(arguments, format);
  const int written = std::vsnprintf(address_.sun_path + 1, room, format, arguments);
  va_end(arguments);
  VERBENA_ASSERT(written > 0 && static_cast<std::size_t>(written) < room,
                 "an abstract socket name has more than 106 bytes");
  length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                   static_cast<std::size_t>(written));
}

socket_or_error new_local_socket() noexcept {
  unique_fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {{}, errno};
  return {std::move(socket), 0};
}

socket_or_error connect_to_name(const local_name& name) noexcept {
  socket_or_error made = new_local_socket();
  if (!made.socket) return made;
  if (::connect(made.socket.get(), name.get(), name.length()) != 0) return {{}, errno};
  if (!identify_peer(made.socket.get()).same_user) return {{}, EACCES};
  return made;
}

accepted_socket accept_own_user(int listener, int most) noexcept {
  int skipped = 0;
  // The number of attempts is limited, because another user could connect without end.
  for (int turn = 0; turn < most; ++turn) {
    unique_fd peer(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return {{{}, errno}, skipped};
    }
    if (identify_peer(peer.get()).same_user) return {{std::move(peer), 0}, skipped};
    ++skipped;
  }
  return {{{}, EAGAIN}, skipped};
}

bool own_user_is_identified() noexcept {
  static const uid_t overflow = overflow_user();
  return ::geteuid() != overflow || namespace_maps_all_users();
}

socket_peer identify_peer(int socket) noexcept {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return {};
  return {credentials.uid == ::geteuid() && own_user_is_identified(), credentials.pid,
          credentials.uid};
}

name_holder find_holder(const local_name& name) noexcept {
  const socket_or_error made = new_local_socket();
  if (!made.socket) return {made.error, {}};
  if (::connect(made.socket.get(), name.get(), name.length()) != 0) return {errno, {}};
  return {0, identify_peer(made.socket.get())};
}

}  // namespace verbena::softdev
