// SPDX-License-Identifier: MIT
// Name resolution. getaddrinfo(3) has no timeout, so it runs on a separate thread.
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "src/bringup/socket.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

struct lookup {
  int problem = 0;      // of getaddrinfo
  int system_code = 0;  // errno when the problem is EAI_SYSTEM
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

/// Shared by the resolving and the waiting thread; the last one frees it.
struct shared_lookup {
  std::mutex mutex;
  std::condition_variable done;
  std::optional<lookup> outcome;
};

std::optional<lookup> look_up_name(const address& where, deadline until) {
  auto shared = std::make_shared<shared_lookup>();
  std::thread([shared, where] {
    auto made = look_up(where.host, where.port, 0);
    const std::lock_guard lock(shared->mutex);
    shared->outcome = std::move(made);
    shared->done.notify_one();
  }).detach();
  std::unique_lock lock(shared->mutex);
  const auto there = [&] { return shared->outcome.has_value(); };
  if (until.is_never())
    shared->done.wait(lock, there);
  else
    shared->done.wait_until(lock, until.when(), there);
  return std::move(shared->outcome);
}

error not_found(const address& where, const lookup& made) {
  if (made.problem == EAI_SYSTEM)
    return error::from_errno(made.system_code, "getaddrinfo", where.host);
  return error::unavailable(
      EHOSTUNREACH, "getaddrinfo", where.host,
      std::string(::gai_strerror(made.problem)) + "; check the spelling, or give an IP address");
}

}  // namespace

const sockaddr* socket_address::get() const noexcept {
  const void* address = &storage;
  return static_cast<const sockaddr*>(address);
}

result<std::vector<socket_address>> resolve(const address& where, resolve_for purpose,
                                            deadline until) {
  const int passive = purpose == resolve_for::listening ? AI_PASSIVE : 0;
  auto made = look_up(where.host, where.port, AI_NUMERICHOST | passive);
  if (made.problem == EAI_NONAME && !where.host.empty()) {
    auto named = look_up_name(where, until);
    if (!named)
      return error::timed_out(
          "getaddrinfo", where.host,
          "the name server did not answer in time; check /etc/resolv.conf, or give an IP address");
    made = *std::move(named);
  }
  if (made.problem != 0 || made.found.empty()) return not_found(where, made);
  if (!where.host.empty()) return std::move(made.found);
  // Wildcard: the IPv6 socket accepts IPv4 as well, so it comes first.
  const auto is_ipv6 = [](const auto& entry) { return entry.storage.ss_family == AF_INET6; };
  std::vector<socket_address> ordered;
  std::ranges::copy_if(made.found, std::back_inserter(ordered), is_ipv6);
  std::ranges::copy_if(made.found, std::back_inserter(ordered), std::not_fn(is_ipv6));
  return ordered;
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
