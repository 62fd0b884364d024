// SPDX-License-Identifier: MIT
// The connections of a process's endpoints. Calls of the program, frames of peers and deadlines
// move an endpoint from one phase to the next. The messages are those of InfiniBand's communication
// management (frame.hpp).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "softdev/cm/endpoint.hpp"
#include "softdev/cm/mad_gateway.hpp"
#include "softdev/cm/newcomers.hpp"
#include "softdev/cm/ports.hpp"
#include "softdev/ipc/reactor.hpp"

namespace verbena::softdev::cm {

/// The content of a request or an answer. Threads: value.
struct proposal {
  side local;
  private_data data;
};

/// Threads: one thread at a time: the manager holds its lock during each call. Functions that
/// return an int return 0 or an errno, like the functions of the manager with the same names.
class connections final : public newcomer_observer {
 public:
  /// All arguments outlive it.
  connections(const manager_options& options, const reactor& watch, const ports& at,
              mad_gateway& others) noexcept
      : options_(options), watch_(watch), ports_(at), other_hosts_(others) {}
  connections(const connections&) = delete;
  connections& operator=(const connections&) = delete;
  /// Ends all connections, like the exit of the process.
  ~connections();

  [[nodiscard]] endpoint_ptr create(const channel_ptr& events, port_space space);
  /// Informs the peer that the endpoint ends.
  void say_farewell(const endpoint& which);
  /// If the peer is on another host, sends the frames of the endpoint at once.
  void flush(const endpoint& which);
  /// Ends the conversation of an endpoint and removes the endpoint.
  void remove(endpoint& which);
  [[nodiscard]] bool empty() const noexcept { return endpoints_.empty(); }
  /// Adds an event to the endpoint's channel.
  static void tell(const endpoint_ptr& which, event what);
  static void tell(const endpoint_ptr& which, event_kind kind, int status);

  [[nodiscard]] int connect(const endpoint_ptr& which, const proposal& what);
  [[nodiscard]] int accept(const endpoint_ptr& which, const proposal& what);
  [[nodiscard]] int establish(const endpoint_ptr& which);
  [[nodiscard]] int reject(const endpoint_ptr& which, std::uint32_t reason,
                           const private_data& data);
  [[nodiscard]] int disconnect(const endpoint_ptr& which);
  [[nodiscard]] int note_established(const endpoint_ptr& which);

  /// Called when a peer requests a connection or looks up a service.
  void request_arrived(unique_fd from, std::uint32_t port_key, const frame& asked) override;
  /// Reads the frames of an endpoint's peer.
  void read(std::uint64_t number, time_point now);
  /// Closes the sockets of processes that look for the address of an endpoint.
  void dismiss(std::uint64_t number) noexcept;
  /// Handles all deadlines that have passed.
  void expire(time_point now);
  [[nodiscard]] time_point next_deadline() const noexcept {
    return deadlines_.empty() ? time_point::max() : deadlines_.begin()->first;
  }
  /// See manager::lose_peers.
  std::size_t lose_peers(std::optional<pid_t> pid);

  /// Closes all descriptors. For a child of fork.
  void close_all() noexcept;

 private:
  [[nodiscard]] endpoint_ptr make(port_space space);
  void set_deadline(endpoint& which, time_point when);
  void expire(const endpoint_ptr& which, time_point now);
  void give_up(const endpoint_ptr& which);
  [[nodiscard]] int send_request(const endpoint_ptr& which, time_point now);
  [[nodiscard]] bool wait_for_listener(const endpoint_ptr& which, time_point now);
  [[nodiscard]] bool handle(const endpoint_ptr& which, const frame& said, time_point now);
  [[nodiscard]] bool reply_arrived(const endpoint_ptr& which, const frame& said);
  [[nodiscard]] bool lookup_answered(const endpoint_ptr& which, const frame& said, time_point now);
  [[nodiscard]] bool rejection_arrived(const endpoint_ptr& which, const frame& said,
                                       time_point now);
  [[nodiscard]] bool end_arrived(const endpoint_ptr& which, time_point now);
  void become_established(const endpoint_ptr& which);
  void lost(const endpoint_ptr& which, time_point now);
  void end_connection(const endpoint_ptr& which, time_point now);
  void finish(endpoint& which);
  [[nodiscard]] static send_outcome say(const endpoint& which, frame_kind kind,
                                        std::uint32_t reason = 0, const private_data& data = {});
  static void set_local(endpoint& which, const side& said) noexcept;

  const manager_options& options_;
  const reactor& watch_;
  const ports& ports_;
  mad_gateway& other_hosts_;
  std::uint64_t next_number_ = 1;
  std::unordered_map<std::uint64_t, endpoint_ptr> endpoints_;
  std::set<std::pair<time_point, std::uint64_t>> deadlines_;
};

}  // namespace verbena::softdev::cm
