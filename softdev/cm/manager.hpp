// SPDX-License-Identifier: MIT
// The connection manager of a process: its lock, its thread, and what the program asks for. The
// thread answers peers and keeps deadlines, so that nothing depends on what the program waits for.
// Ports are in `ports`, peers that have not said what they want in `newcomers`, all else in
// `connections`.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "softdev/cm/connections.hpp"
#include "softdev/cm/endpoint.hpp"
#include "softdev/cm/mad_gateway.hpp"
#include "softdev/cm/manager_options.hpp"
#include "softdev/cm/newcomers.hpp"
#include "softdev/cm/ports.hpp"
#include "softdev/ipc/reactor.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev::cm {

/// Threads: thread-safe. Functions that return an int give 0 or an errno; none blocks for long.
class manager {
 public:
  /// A manager with its thread. `carrier` outlives it; nullptr: there are no other hosts. Errors:
  /// the errno of what could not be made.
  [[nodiscard]] static result<std::unique_ptr<manager>> open(const manager_options& options = {},
                                                             mad_carrier* carrier = nullptr);
  /// Ends all conversations as a process that exits does.
  ~manager();
  manager(const manager&) = delete;
  manager& operator=(const manager&) = delete;

  [[nodiscard]] result<channel_ptr> create_channel();
  [[nodiscard]] endpoint_ptr create(const channel_ptr& events, port_space space);
  /// Ends what the endpoint does: the peer is told, its pending events are forgotten, requests that
  /// nobody took are rejected. Returns how many of its events were taken.
  std::uint32_t destroy(const endpoint_ptr& which);
  /// Later events, and those that wait, come by `events`. Returns how many were taken until now.
  std::uint32_t migrate(const endpoint_ptr& which, const channel_ptr& events);
  void set_options(const endpoint_ptr& which, const endpoint_options& options);

  /// EINVAL unless idle; EADDRNOTAVAIL for an address that is not this host's. For a port in use,
  /// EADDRINUSE if the same address is bound, and EADDRNOTAVAIL if one of both is a wildcard.
  [[nodiscard]] int bind(const endpoint_ptr& which, const address& source);
  /// EINVAL unless bound or idle; errors as `bind` if an endpoint shares the address. May block for
  /// two seconds if other hosts can connect.
  [[nodiscard]] int listen(const endpoint_ptr& which, int backlog);
  /// Tells address_resolved, or address_error when `destination` is not this host and cannot be
  /// reached. A wildcard stands for loopback. EINVAL unless idle or bound; errors of `bind` for
  /// `source`. May block for two seconds if `destination` is another host.
  [[nodiscard]] int resolve_address(const endpoint_ptr& which, const std::optional<address>& source,
                                    const address& destination);
  /// Tells route_resolved. EINVAL unless the address is resolved.
  [[nodiscard]] int resolve_route(const endpoint_ptr& which);
  /// Sends the request, or looks the service up. EINVAL unless the route is resolved.
  [[nodiscard]] int connect(const endpoint_ptr& which, const proposal& what);
  /// Answers a request. EINVAL when there is none, any more.
  [[nodiscard]] int accept(const endpoint_ptr& which, const proposal& what);
  /// Confirms a reply. EINVAL when there is none.
  [[nodiscard]] int establish(const endpoint_ptr& which);
  [[nodiscard]] int reject(const endpoint_ptr& which, std::uint32_t reason,
                           const private_data& data);
  /// EINVAL when it never was in a connection; an end that is under way is no error.
  [[nodiscard]] int disconnect(const endpoint_ptr& which);
  /// A message came on the queue pair before the confirmation did.
  [[nodiscard]] int note_established(const endpoint_ptr& which);

  /// A message of the connection manager of another host has arrived. Never blocks; the message is
  /// lost if too many wait.
  void deliver(const address& own, const address& peer, mad_view message) noexcept;

  [[nodiscard]] endpoint_view look(const endpoint_ptr& which);
  /// The oldest event, counted as taken.
  [[nodiscard]] std::optional<event> take(channel& from);
  /// Puts an event of the caller's own making in; sets `about`. The `membership` of a
  /// multicast_join is the caller's number for it.
  void post(const endpoint_ptr& which, event what);
  /// Forgets the multicast_join with this number, if it was not taken.
  void forget_joined(const endpoint_ptr& which, std::uint64_t membership);

  /// Ends the conversations with all other processes, or with the one of this pid, as if it had
  /// exited; it takes this process for exited. Returns how many.
  std::size_t lose_peers(std::optional<pid_t> pid);

  /// Around fork: no other thread is inside while the process forks; in the child, `abandon` closes
  /// what it shares with its parent. Nothing else may be done with it there.
  void lock_for_fork() { mutex_.lock(); }
  void unlock_after_fork() { mutex_.unlock(); }
  void abandon() noexcept;

 private:
  using lock = std::lock_guard<std::mutex>;

  manager(const manager_options& options, mad_carrier* carrier)
      : options_(options), carrier_(carrier) {}
  [[nodiscard]] int start();
  static void* enter(void* self) noexcept;
  void loop();
  void wake() const noexcept;
  [[nodiscard]] int wait_milliseconds();
  void dispatch(reactor::source from, time_point now);
  void note_deadlines();
  void hear_other_hosts(time_point now);
  [[nodiscard]] int find_source(const address& destination, address& source);
  void drop_events(const endpoint& which, std::vector<endpoint_ptr>& orphans);
  void end(const endpoint_ptr& which, std::vector<endpoint_ptr>& orphans);

  /// A message of another host.
  struct letter {
    address own;
    address peer;
    std::array<std::byte, mad_bytes> bytes;
  };

  const manager_options options_;
  mad_carrier* const carrier_;
  reactor watch_;
  unique_fd wake_;
  pthread_t thread_{};
  bool running_ = false;

  std::mutex letters_mutex_;  ///< guards `letters_`; no other lock is taken while it is held
  std::vector<letter> letters_;

  std::mutex mutex_;  ///< guards all that follows
  bool stop_ = false;
  time_point sleeps_until_ = time_point::max();  ///< the thread, unless it is woken
  ports ports_{watch_, options_.max_backlog};
  connections connections_{options_, watch_, ports_, other_hosts_};
  mad_gateway other_hosts_{options_, watch_, carrier_, connections_};
  newcomers newcomers_{options_, watch_, ports_, connections_, other_hosts_};
};

}  // namespace verbena::softdev::cm
