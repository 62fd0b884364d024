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
#include "softdev/cm/incoming_connections.hpp"
#include "softdev/cm/mad_gateway.hpp"
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
class connections final : public request_observer {
 public:
  /// All arguments outlive it.
  connections(const manager_options& options, const reactor& watch, const ports& at,
              mad_gateway& other_hosts) noexcept
      : options_(options), watch_(watch), ports_(at), other_hosts_(other_hosts) {}
  connections(const connections&) = delete;
  connections& operator=(const connections&) = delete;
  /// Ends all connections, like the exit of the process.
  ~connections();

  [[nodiscard]] endpoint_ptr create(const channel_ptr& events, port_space space);
  /// Informs the peer that the endpoint ends.
  void send_final_message(const endpoint& ep);
  /// If the peer is on another host, sends the frames of the endpoint at once.
  void flush(const endpoint& ep);
  /// Ends the connection or request of an endpoint and removes the endpoint.
  void remove(endpoint& ep);
  [[nodiscard]] bool empty() const noexcept { return endpoints_.empty(); }
  /// Adds an event to the endpoint's channel.
  static void report(const endpoint_ptr& ep, event what);
  static void report(const endpoint_ptr& ep, event_kind kind, int status);

  [[nodiscard]] int connect(const endpoint_ptr& ep, const proposal& what);
  [[nodiscard]] int accept(const endpoint_ptr& ep, const proposal& what);
  [[nodiscard]] int establish(const endpoint_ptr& ep);
  [[nodiscard]] int reject(const endpoint_ptr& ep, std::uint32_t reason, const private_data& data);
  [[nodiscard]] int disconnect(const endpoint_ptr& ep);
  [[nodiscard]] int note_established(const endpoint_ptr& ep);

  /// Called when a peer requests a connection or a service (SIDR).
  void request_arrived(unique_fd from, std::uint32_t port_key, const frame& request) override;
  /// Reads the frames of an endpoint's peer.
  void read(std::uint64_t number, time_point now);
  /// Closes the sockets of processes that look for the address of an endpoint.
  void close_probes(std::uint64_t number) noexcept;
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
  void set_deadline(endpoint& ep, time_point when);
  void expire(const endpoint_ptr& ep, time_point now);
  void give_up(const endpoint_ptr& ep);
  [[nodiscard]] int send_request(const endpoint_ptr& ep, time_point now);
  [[nodiscard]] bool wait_for_listener(const endpoint_ptr& ep, time_point now);
  [[nodiscard]] bool handle(const endpoint_ptr& ep, const frame& received, time_point now);
  [[nodiscard]] bool reply_arrived(const endpoint_ptr& ep, const frame& received);
  [[nodiscard]] bool sidr_reply_arrived(const endpoint_ptr& ep, const frame& received,
                                        time_point now);
  [[nodiscard]] bool rejection_arrived(const endpoint_ptr& ep, const frame& received,
                                       time_point now);
  [[nodiscard]] bool disconnect_arrived(const endpoint_ptr& ep, time_point now);
  void become_established(const endpoint_ptr& ep);
  void lost(const endpoint_ptr& ep, time_point now);
  void end_connection(const endpoint_ptr& ep, time_point now);
  void finish(endpoint& ep);
  [[nodiscard]] static send_outcome send(const endpoint& ep, frame_kind kind,
                                         std::uint32_t reason = 0, const private_data& data = {});
  static void set_local(endpoint& ep, const side& wanted) noexcept;

  const manager_options& options_;
  const reactor& watch_;
  const ports& ports_;
  mad_gateway& other_hosts_;
  std::uint64_t next_number_ = 1;
  std::unordered_map<std::uint64_t, endpoint_ptr> endpoints_;
  std::set<std::pair<time_point, std::uint64_t>> deadlines_;
};

}  // namespace verbena::softdev::cm
