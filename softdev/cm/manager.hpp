// SPDX-License-Identifier: MIT
// The connection manager of a process: its lock, its thread, and the calls of the program. The
// thread answers peers and handles deadlines, so that progress does not depend on the program.
// Ports are in `ports`, peers without a first frame in `incoming_connections`, messages between
// hosts in `mad_gateway`, requests of other hosts for which no process listens yet in
// `early_requests`, everything else in `connections`.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "softdev/cm/connections.hpp"
#include "softdev/cm/early_requests.hpp"
#include "softdev/cm/endpoint.hpp"
#include "softdev/cm/incoming_connections.hpp"
#include "softdev/cm/mad_gateway.hpp"
#include "softdev/cm/manager_options.hpp"
#include "softdev/cm/ports.hpp"
#include "softdev/cm/received_messages.hpp"
#include "softdev/ipc/reactor.hpp"
#include "verbena/base/function_ref.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev::cm {

/// Threads: thread-safe. Functions that return an int return 0 or an errno. Functions block only
/// where stated.
class manager {
 public:
  /// Creates a manager, and starts its thread if `has_thread` is set. `carrier` outlives
  /// the manager; nullptr: there are no other hosts. Errors: the errno of a descriptor or thread
  /// that could not be created.
  [[nodiscard]] static result<std::unique_ptr<manager>> open(const manager_options& options = {},
                                                             mad_carrier* carrier = nullptr);
  /// Ends all connections, like the exit of the process.
  ~manager();
  manager(const manager&) = delete;
  manager& operator=(const manager&) = delete;

  [[nodiscard]] endpoint_ptr create(const channel_ptr& events, port_space space);
  /// Destroys an endpoint: informs the peer, drops its pending events, and rejects the requests
  /// among them. Returns the number of its events that were taken.
  std::uint32_t destroy(const endpoint_ptr& ep);
  /// Moves the pending events of an endpoint to `events`, which also receives its later events.
  /// Returns the number of its events that were taken so far.
  std::uint32_t migrate(const endpoint_ptr& ep, const channel_ptr& events);
  /// See ports::change_options.
  [[nodiscard]] int set_options(const endpoint_ptr& ep, const endpoint_options& options);

  /// Binds an endpoint. EINVAL unless it is idle; EADDRNOTAVAIL if the address is not one of this
  /// host. If the port is in use: EADDRINUSE if the same address is bound, EADDRNOTAVAIL if one of
  /// the two is a wildcard.
  [[nodiscard]] int bind(const endpoint_ptr& ep, const address& source);
  /// Makes an endpoint listen. EINVAL unless it is bound or idle; the errors of `bind` if another
  /// endpoint shares the address. May block for two seconds if other hosts can connect.
  [[nodiscard]] int listen(const endpoint_ptr& ep, int backlog);
  /// Resolves an address: reports address_resolved, or address_error if `destination` is another
  /// host that cannot be reached. A wildcard means loopback. EINVAL unless the endpoint is idle or
  /// bound; the errors of `bind` for `source`. May block for two seconds if `destination` is
  /// another host.
  [[nodiscard]] int resolve_address(const endpoint_ptr& ep, const std::optional<address>& source,
                                    const address& destination);
  /// Resolves the route: reports route_resolved. EINVAL unless the address is resolved.
  [[nodiscard]] int resolve_route(const endpoint_ptr& ep);
  /// Sends the connection request, or the SIDR request. EINVAL unless the route is resolved.
  [[nodiscard]] int connect(const endpoint_ptr& ep, const proposal& what);
  /// Accepts a request. EINVAL if there is no request, or no longer.
  [[nodiscard]] int accept(const endpoint_ptr& ep, const proposal& what);
  /// Confirms a reply. EINVAL if there is no reply.
  [[nodiscard]] int establish(const endpoint_ptr& ep);
  [[nodiscard]] int reject(const endpoint_ptr& ep, std::uint32_t reason, const private_data& data);
  /// Ends a connection. EINVAL if the endpoint never had one; not an error if the connection is
  /// already ending.
  [[nodiscard]] int disconnect(const endpoint_ptr& ep);
  /// Completes a connection whose queue pair has received a message before the confirmation
  /// arrived.
  [[nodiscard]] int note_established(const endpoint_ptr& ep);

  /// Does the work that is due, without blocking. Returns the time of the next deadline; messages
  /// and calls can add work earlier. time_point::max(): no deadline. Only for a manager without a
  /// thread.
  [[nodiscard]] time_point turn();
  /// Delivers a message of another host's connection manager. Never blocks. Drops the message if
  /// too many messages are waiting.
  void deliver(const address& own, const address& peer, mad_view message) noexcept;

  [[nodiscard]] endpoint_view look(const endpoint_ptr& ep);
  /// Takes the oldest event and counts it. Returns `nullopt` if there is no event, or if `prepare`
  /// returns false. `prepare` is called before the event is removed.
  [[nodiscard]] std::optional<event> take(channel& from, function_ref<bool()> prepare = {});
  /// Adds an event of the caller, and sets its `about`. The `membership` of a multicast_join is the
  /// caller's number for it.
  void post(const endpoint_ptr& ep, event what);
  /// Drops the multicast_join with this number, unless it was taken.
  void forget_joined(const endpoint_ptr& ep, std::uint64_t membership);

  /// Ends the connections with all other processes, or with the process `pid`. Both sides see an
  /// exit of the other process. Returns the number of connections.
  std::size_t lose_peers(std::optional<pid_t> pid);

  /// For handlers of fork: no other thread is inside the manager while the process forks. In the
  /// child, `abandon` closes the descriptors that it shares with its parent; the child must not use
  /// the manager.
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
  void handle(std::span<const reactor::source> ready);
  [[nodiscard]] time_point next_deadline() const noexcept;
  void wake() const noexcept;
  [[nodiscard]] int wait_milliseconds();
  void dispatch(reactor::source from, time_point now);
  void note_deadlines();
  void handle_received(time_point now);
  [[nodiscard]] int find_source(const address& destination, address& source);
  void drop_events(const endpoint& ep, std::vector<endpoint_ptr>& orphans);
  void end(const endpoint_ptr& ep, std::vector<endpoint_ptr>& orphans);

  const manager_options options_;
  mad_carrier* const carrier_;
  reactor watch_;
  unique_fd wake_;
  pthread_t thread_{};
  bool running_ = false;

  received_messages received_;

  std::mutex mutex_;  ///< guards all members below
  bool stop_ = false;
  time_point sleeps_until_ = time_point::max();  ///< of the thread, unless it is woken
  ports ports_{watch_, options_.max_backlog};
  connections connections_{options_, watch_, ports_, other_hosts_};
  mad_gateway other_hosts_{options_, watch_, carrier_, connections_};
  early_requests early_{options_, carrier_};
  incoming_connections incoming_{options_, watch_, ports_, connections_, other_hosts_};
};

}  // namespace verbena::softdev::cm
