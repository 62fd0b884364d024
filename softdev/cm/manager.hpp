// SPDX-License-Identifier: MIT
// The connection manager of a process: endpoints, ports, and the conversations with other processes
// of the same user on this host. A thread of its own answers peers and keeps deadlines, so that
// nothing depends on what the program waits for.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "softdev/cm/endpoint.hpp"
#include "softdev/cm/port_names.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev::cm {

/// How long, and how many. Threads: value.
struct manager_options {
  std::chrono::milliseconds answer_timeout{60'000};     ///< for a reply to a request
  std::chrono::milliseconds listener_patience{100};     ///< for somebody who listens
  std::chrono::milliseconds ready_timeout{60'000};      ///< for the confirmation of a reply
  std::chrono::milliseconds announce_timeout{5'000};    ///< for the first frame of a new peer
  std::chrono::milliseconds disconnect_timeout{5'000};  ///< for the confirmation of the end
  std::chrono::milliseconds timewait{1'000};
  std::size_t max_newcomers = 256;  ///< peers that have said nothing yet
  unsigned max_backlog = 1024;
};

/// What a request or an answer says. Threads: value.
struct proposal {
  side local;
  private_data data;
};

/// Threads: thread-safe. Functions that return an int give 0 or an errno; none blocks for long.
class manager {
 public:
  /// A manager with its thread. Errors: the errno of what could not be made.
  [[nodiscard]] static result<std::unique_ptr<manager>> open(const manager_options& options = {});
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
  [[nodiscard]] endpoint_options options_of(const endpoint_ptr& which);

  /// EINVAL unless idle; EADDRNOTAVAIL for an address that is not this host's. For a port in use,
  /// EADDRINUSE if the same address is bound, and EADDRNOTAVAIL if one of both is a wildcard.
  [[nodiscard]] int bind(const endpoint_ptr& which, const address& source);
  /// EINVAL unless bound or idle; errors as `bind` if an endpoint shares the address.
  [[nodiscard]] int listen(const endpoint_ptr& which, int backlog);
  /// Tells address_resolved, or address_error when `destination` is not this host. A wildcard
  /// stands for loopback. EINVAL unless idle or bound; errors of `bind` for `source`.
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

  [[nodiscard]] endpoint_view look(const endpoint_ptr& which);
  /// The oldest event, counted as taken.
  [[nodiscard]] std::optional<event> take(channel& from);
  /// Puts an event of the caller's own making in.
  void post(const endpoint_ptr& which, event_kind kind, int status);
  /// Tells that a group was joined; `membership` is the caller's number for that.
  void tell_joined(const endpoint_ptr& which, std::uint64_t membership);
  /// Forgets that, if it was not taken.
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
  enum class source_kind : std::uint8_t { wake, port, newcomer, endpoint, published };
  struct port {
    unique_fd socket;  ///< empty if another process has the number: its holders have sockets then
    unique_fd entry;   ///< of port_claim
    std::uint64_t number = 0;
    bool open = false;
    std::vector<endpoint*> holders;
  };
  /// A peer that has not said what it wants.
  struct newcomer {
    unique_fd socket;
    std::uint32_t port_key = 0;
    time_point give_up_at;
  };
  using lock = std::lock_guard<std::mutex>;

  explicit manager(const manager_options& options) : options_(options) {}
  [[nodiscard]] int start();
  [[nodiscard]] endpoint_ptr make_endpoint(port_space space);

  // The thread.
  static void* enter(void* self) noexcept;
  void loop();
  void wake() const noexcept;
  [[nodiscard]] int wait_milliseconds();
  void dispatch(std::uint64_t tag, time_point now);
  void expire(time_point now);
  void expire(const endpoint_ptr& which, time_point now);

  // Sockets.
  [[nodiscard]] int watch(int fd, source_kind kind, std::uint64_t number) const noexcept;
  void unwatch(const unique_fd& fd) const noexcept;
  void set_deadline(endpoint& which, time_point when);
  void accept_newcomers(std::uint64_t number, time_point now);
  void read_newcomer(std::uint64_t number, time_point now);
  void read_endpoint(const endpoint_ptr& which, time_point now);
  static void refuse(int socket, const frame& asked, std::uint32_t reason);

  // The conversation; all with the lock held.
  void request_arrived(newcomer from, const frame& asked);
  [[nodiscard]] bool handle(const endpoint_ptr& which, const frame& said, time_point now);
  [[nodiscard]] bool reply_arrived(const endpoint_ptr& which, const frame& said);
  [[nodiscard]] bool lookup_answered(const endpoint_ptr& which, const frame& said);
  [[nodiscard]] bool rejection_arrived(const endpoint_ptr& which, const frame& said,
                                       time_point now);
  [[nodiscard]] bool end_arrived(const endpoint_ptr& which, time_point now);
  void become_established(const endpoint_ptr& which);
  void lost(const endpoint_ptr& which, time_point now);
  void end_connection(const endpoint_ptr& which, time_point now);
  void finish(endpoint& which);
  void tell(const endpoint_ptr& which, event what);
  void tell(const endpoint_ptr& which, event_kind kind, int status);
  [[nodiscard]] send_outcome say(const endpoint& which, frame_kind kind, std::uint32_t reason = 0,
                                 const private_data& data = {});
  [[nodiscard]] int send_request(const endpoint_ptr& which, time_point now);
  static void set_local(endpoint& which, const side& said) noexcept;
  void give_up(const endpoint_ptr& which);
  void farewell(endpoint& which);

  // Ports; with the lock held.
  [[nodiscard]] int take_port(endpoint& which, const address& source);
  [[nodiscard]] int take_any_port(endpoint& which, const address& source);
  void release_port(endpoint& which);
  void turn_away(const unique_fd& socket);
  template <class Action>
  static void for_each_socket(const port& where, Action action);
  [[nodiscard]] static socket_or_error next_peer(const port& where) noexcept;
  [[nodiscard]] static port_wish wish_of(const endpoint& which, const address& source) noexcept;
  [[nodiscard]] static int conflict_with(const port& where, const endpoint& which,
                                         const port_wish& wish) noexcept;
  [[nodiscard]] std::vector<const published_address*> own_addresses(
      std::uint32_t key, const published_address& more) const;
  [[nodiscard]] int take_alone(const port& where, endpoint& which);
  [[nodiscard]] int watch_published(const endpoint& which) const noexcept;
  [[nodiscard]] static int claim_own_socket(endpoint& which, const port_wish& wish);
  [[nodiscard]] int open_socket(port& where, endpoint& which);
  [[nodiscard]] endpoint* listener_for(std::uint32_t key, const address& destination) const;
  void drop_events(endpoint& which, std::vector<endpoint_ptr>& orphans);
  void end(const endpoint_ptr& which, std::vector<endpoint_ptr>& orphans);

  const manager_options options_;
  unique_fd epoll_;
  unique_fd wake_;
  pthread_t thread_{};
  bool running_ = false;

  std::mutex mutex_;
  bool stop_ = false;
  std::uint64_t next_number_ = 1;
  std::unordered_map<std::uint64_t, endpoint_ptr> endpoints_;
  std::map<std::uint32_t, port> ports_;
  std::map<std::uint64_t, newcomer> newcomers_;
  std::set<std::pair<time_point, std::uint64_t>> deadlines_;
  time_point resume_accepting_at_ = time_point::max();
  time_point sleeps_until_ = time_point::max();  ///< the thread, unless it is woken
  ephemeral_ports numbers_;
};

}  // namespace verbena::softdev::cm
