// SPDX-License-Identifier: MIT
// Name resolution. getaddrinfo(3) has no timeout, so it runs on separate threads, whose number is
// limited.
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
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

/// The work of a resolving thread.
struct resolving {
  std::shared_ptr<shared_lookup> shared;
  address where;
};

/// Resolves host names on at most `max_threads` threads; further names wait. Each thread ends if no
/// name waits. Threads: thread-safe.
class name_resolver {
 public:
  static constexpr std::size_t max_threads = 32;

  /// Returns that of this process: a child of fork has none of the threads.
  static name_resolver& of_process() {
    static std::atomic<name_resolver*> current{nullptr};
    auto* found = current.load();
    while (found == nullptr || found->process_ != ::getpid()) {
      auto made = std::make_unique<name_resolver>(found);
      if (current.compare_exchange_strong(found, made.get())) found = made.release();
    }
    return *found;  // never destroyed: the threads are detached
  }

  explicit name_resolver(name_resolver* of_parent) noexcept : of_parent_(of_parent) {}

  /// Returns 0, or the errno of pthread_create(3) if no thread can resolve the name.
  int add(resolving work) {
    const std::lock_guard lock(mutex_);
    // Names that wait for a thread, and for whose result no caller waits any more.
    std::erase_if(waiting_, [](const resolving& each) { return each.shared.use_count() == 1; });
    waiting_.push_back(std::move(work));
    if (threads_ == max_threads) return 0;
    pthread_t started{};
    const int code = verbena::detail::start_quiet_thread(started, &run, this, "verbena-resolve");
    if (code == 0) {
      ::pthread_detach(started);
      ++threads_;
    } else if (threads_ == 0) {
      waiting_.pop_back();
      return code;
    }
    return 0;
  }
  /// Returns whether the name waits for a thread: all are in use.
  [[nodiscard]] bool is_waiting(const std::shared_ptr<shared_lookup>& name) {
    const std::lock_guard lock(mutex_);
    return std::ranges::find(waiting_, name, &resolving::shared) != waiting_.end();
  }

 private:
  /// Returns the next name for whose result a caller waits.
  std::optional<resolving> next() {
    const std::lock_guard lock(mutex_);
    while (!waiting_.empty()) {
      resolving first = std::move(waiting_.front());
      waiting_.pop_front();
      if (first.shared.use_count() > 1) return first;
    }
    --threads_;
    return std::nullopt;
  }
  static void* run(void* self) {
    while (auto work = static_cast<name_resolver*>(self)->next()) {
      auto made = look_up(work->where.host, work->where.port, 0);
      const std::lock_guard lock(work->shared->mutex);
      work->shared->outcome = std::move(made);
      // Cannot fail: the counter is 0.
      static_cast<void>(::eventfd_write(work->shared->done.get(), 1));
    }
    return nullptr;
  }

  const pid_t process_ = ::getpid();
  [[maybe_unused]] const name_resolver* const of_parent_;  // reachable, so that it is no leak
  std::mutex mutex_;
  std::deque<resolving> waiting_;
  std::size_t threads_ = 0;
};

steps<std::optional<lookup>> look_up_name(address where, deadline until) {
  auto shared = std::make_shared<shared_lookup>();
  shared->done.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared->done) co_return error::from_errno(errno, "eventfd", where.host);
  auto& resolver = name_resolver::of_process();
  if (const int code = resolver.add({shared, where}); code != 0)
    co_return error::from_errno(code, "pthread_create", where.host,
                                "a host name is resolved on a separate thread, and the limit of "
                                "threads is reached (pids cgroup, RLIMIT_NPROC); give an IP "
                                "address, or raise the limit");
  const auto ended = co_await verbena::detail::ready(shared->done.get(), POLLIN, until);
  VERBENA_CO_TRY_DISCARD(ended);
  if (!*ended && resolver.is_waiting(shared))
    co_return error::timed_out(
        "getaddrinfo", where.host,
        "this process resolves " + std::to_string(name_resolver::max_threads) +
            " other host names, for which the name server does not answer; check "
            "/etc/resolv.conf, or give IP addresses");
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
