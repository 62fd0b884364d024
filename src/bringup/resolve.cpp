// SPDX-License-Identifier: MIT
// Name resolution. getaddrinfo(3) has no timeout, so it runs on a separate thread.
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/quiet_thread.hpp"
#include "src/bringup/socket.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

struct lookup {
  int problem = 0;      // error code of getaddrinfo(3)
  int system_code = 0;  // errno if `problem` is EAI_SYSTEM
  std::vector<socket_address> found;
};

lookup look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  lookup made;
  const char* node = host.empty() ? nullptr : host.c_str();
  made.problem = ::getaddrinfo(node, std::to_string(port).c_str(), &hints, &list);
  made.system_code = errno;
  if (made.problem != 0) return made;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    socket_address address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    made.found.push_back(address);
  }
  return made;
}

/// The state that the resolving and the waiting thread share. The last of them frees it.
struct shared_lookup {
  unique_fd done;  // an eventfd, readable after `outcome` is set
  std::mutex mutex;
  std::optional<lookup> outcome;
};

/// The work of the resolving thread.
struct resolving {
  std::shared_ptr<shared_lookup> shared;
  address where;
};

void* resolve_name(void* work) {
  const std::unique_ptr<resolving> owned(static_cast<resolving*>(work));
  auto made = look_up(owned->where.host, owned->where.port, 0);
  const std::lock_guard lock(owned->shared->mutex);
  owned->shared->outcome = std::move(made);
  // Cannot fail: the counter is 0.
  static_cast<void>(::eventfd_write(owned->shared->done.get(), 1));
  return nullptr;
}

/// Starts a detached thread. Returns the errno.
int start(std::unique_ptr<resolving> work) {
  pthread_t started{};
  const int code =
      verbena::detail::start_quiet_thread(started, &resolve_name, work.get(), "verbena-resolve");
  if (code != 0) return code;
  static_cast<void>(work.release());  // owned by the thread
  ::pthread_detach(started);
  return 0;
}

steps<std::optional<lookup>> look_up_name(address where, deadline until) {
  auto shared = std::make_shared<shared_lookup>();
  shared->done.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared->done) co_return error::from_errno(errno, "eventfd", where.host);
  if (const int code = start(std::make_unique<resolving>(resolving{shared, where})); code != 0)
    co_return error::from_errno(code, "pthread_create", where.host,
                                "a host name is resolved on a separate thread, and the limit of "
                                "threads is reached (pids cgroup, RLIMIT_NPROC); give an IP "
                                "address, or raise the limit");
  const auto ended = co_await verbena::detail::ready(shared->done.get(), POLLIN, until);
  VERBENA_CO_TRY_VOID(ended);
  const std::lock_guard lock(shared->mutex);
  co_return std::move(shared->outcome);
}

error not_found(const address& where, const lookup& made) {
  if (made.problem == EAI_SYSTEM)
    return error::from_errno(made.system_code, "getaddrinfo", where.host);
  return error::unavailable(
      EHOSTUNREACH, "getaddrinfo", where.host,
      std::string(::gai_strerror(made.problem)) + "; check the spelling, or give an IP address");
}

bool is_ipv6(const socket_address& which) { return which.storage.ss_family == AF_INET6; }

steps<std::vector<socket_address>> look_up_all(address where, resolve_for purpose, deadline until) {
  const int passive = purpose == resolve_for::listening ? AI_PASSIVE : 0;
  auto made = look_up(where.host, where.port, AI_NUMERICHOST | passive);
  if (made.problem == EAI_NONAME && !where.host.empty()) {
    VERBENA_CO_TRY(auto named, co_await look_up_name(where, until));
    if (!named)
      co_return error::timed_out(
          "getaddrinfo", where.host,
          "the name server did not answer in time; check /etc/resolv.conf, or give an IP address");
    made = *std::move(named);
  }
  if (made.problem != 0 || made.found.empty()) co_return not_found(where, made);
  if (!where.host.empty()) co_return std::move(made.found);
  // Wildcard: the IPv6 socket accepts IPv4 as well, so it comes first.
  std::vector<socket_address> ordered;
  std::ranges::copy_if(made.found, std::back_inserter(ordered), is_ipv6);
  std::ranges::copy_if(made.found, std::back_inserter(ordered), std::not_fn(is_ipv6));
  co_return ordered;
}

}  // namespace

const sockaddr* socket_address::get() const noexcept {
  const void* address = &storage;
  return static_cast<const sockaddr*>(address);
}

steps<std::vector<socket_address>> resolve(address where, resolve_for purpose, deadline until) {
  return look_up_all(std::move(where), purpose, until);
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
