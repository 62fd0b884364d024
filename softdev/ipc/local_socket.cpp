// SPDX-License-Identifier: MIT
#include "softdev/ipc/local_socket.hpp"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "softdev/ipc/clock.hpp"
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

// unix_diag(7) of Linux 5.3; headers may be older.
constexpr std::uint32_t show_user = 0x40;
constexpr unsigned short user_attribute = 7;

struct diag_request {
  nlmsghdr header;
  unix_diag_req body;
};

constexpr std::size_t aligned(std::size_t length) noexcept {
  return (length + 3) & ~std::size_t{3};
}

// The name and the user of one listening socket, as the kernel reports them.
struct listener_report {
  const char* name = nullptr;
  std::size_t name_length = 0;
  std::optional<uid_t> user;

  explicit listener_report(const nlmsghdr& message) noexcept {
    constexpr std::size_t head = aligned(sizeof(nlmsghdr)) + aligned(sizeof(unix_diag_msg));
    const char* const bytes = reinterpret_cast<const char*>(&message);
    rtattr each{};
    for (std::size_t at = head; at + sizeof each <= message.nlmsg_len;
         at += aligned(each.rta_len)) {
      std::memcpy(&each, bytes + at, sizeof each);
      if (each.rta_len < sizeof each || each.rta_len > message.nlmsg_len - at) return;
      const char* const value = bytes + at + sizeof each;
      if (each.rta_type == UNIX_DIAG_NAME) {
        name = value;
        name_length = each.rta_len - sizeof each;
      }
      if (each.rta_type == user_attribute && each.rta_len >= sizeof each + sizeof(uid_t)) {
        uid_t found = 0;
        std::memcpy(&found, value, sizeof found);
        user = found;
      }
    }
  }
  [[nodiscard]] bool has(const local_name& wanted) const noexcept {
    constexpr std::size_t head = offsetof(sockaddr_un, sun_path);
    return name_length + head == wanted.length() &&
           std::memcmp(name, reinterpret_cast<const char*>(wanted.get()) + head, name_length) == 0;
  }
};

unique_fd ask_for_listeners() noexcept {
  unique_fd asking(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  diag_request request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.sdiag_family = AF_UNIX;
  constexpr unsigned listening = 10;  // TCP_LISTEN
  request.body.udiag_states = 1U << listening;
  request.body.udiag_show = UDIAG_SHOW_NAME | show_user;
  if (!asking || ::send(asking.get(), &request, sizeof request, 0) < 0) return {};
  return asking;
}

// Returns the user that listens under a name; `nullopt` if the kernel does not report it. The cost
// grows with the listening sockets of the host.
std::optional<uid_t> user_of_listener(const local_name& name) noexcept {
  const unique_fd asking = ask_for_listeners();
  alignas(nlmsghdr) std::array<char, 16'384> bytes;
  while (asking) {
    // The answer is complete, or is made by this call: the call does not wait.
    const ssize_t got = ::recv(asking.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0) return std::nullopt;
    const auto end = static_cast<std::size_t>(got);
    for (std::size_t at = 0; at + sizeof(nlmsghdr) <= end;) {
      const auto& each = *reinterpret_cast<const nlmsghdr*>(bytes.data() + at);
      const bool is_whole = each.nlmsg_len >= sizeof each && each.nlmsg_len <= end - at;
      // Another type is the end, or an error.
      if (!is_whole || each.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
      if (const listener_report report(each); report.has(name)) return report.user;
      at += aligned(each.nlmsg_len);
    }
  }
  return std::nullopt;
}

/// How long an answer about a name is valid for connect_to_name(), which may be repeated often.
constexpr std::uint64_t answer_valid_ns = 500'000'000;

struct listener_answer {
  std::size_t name_hash = 0;
  std::uint64_t valid_until = 0;
  bool is_other_user = false;
};

// Per thread, so that a child of fork() needs no lock of its parent.
constinit thread_local std::array<listener_answer, 8> last_answers{};

// Like is_name_of_another_user(), but the answer may be half a second old.
bool was_name_of_another_user(const local_name& name) noexcept {
  const std::string_view bytes(reinterpret_cast<const char*>(name.get()), name.length());
  const std::size_t hash = std::hash<std::string_view>{}(bytes);
  listener_answer& last = last_answers[hash % last_answers.size()];
  const std::uint64_t now = monotonic_now();
  if (last.name_hash != hash || now >= last.valid_until)
    last = {hash, now + answer_valid_ns, is_name_of_another_user(name)};
  return last.is_other_user;
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
  if (::connect(made.socket.get(), name.get(), name.length()) != 0) {
    const int failed = errno;
    return {{}, failed == EAGAIN && was_name_of_another_user(name) ? EACCES : failed};
  }
  if (!identify_peer(made.socket.get()).same_user) return {{}, EACCES};
  return made;
}

bool is_name_of_another_user(const local_name& name) noexcept {
  const auto user = user_of_listener(name);
  return user && *user != ::geteuid();
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
