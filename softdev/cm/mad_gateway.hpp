// SPDX-License-Identifier: MIT
// Message exchanges with connection managers of other hosts. An endpoint has a socket to its peer,
// over which it exchanges frames. If the peer is on another host, the gateway has the other end
// of the socket. It translates frames to management datagrams (MADs), and the answers to frames. It
// repeats messages that may be lost, and detects repeated messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "softdev/cm/incoming_connections.hpp"
#include "softdev/cm/mad.hpp"
#include "softdev/cm/mad_carrier.hpp"
#include "softdev/cm/mad_routing.hpp"
#include "softdev/cm/manager_options.hpp"
#include "softdev/ipc/local_socket.hpp"
#include "softdev/ipc/reactor.hpp"

namespace verbena::softdev::cm {

/// Threads: one thread at a time: the manager holds its lock during each call.
class mad_gateway final : public remote_request_observer {
 public:
  /// All arguments outlive the gateway. `observer` receives the requests.
  mad_gateway(const manager_options& options, const reactor& watch, mad_carrier* carrier,
              request_observer& observer) noexcept
      : options_(options), watch_(watch), carrier_(carrier), observer_(observer) {}
  mad_gateway(const mad_gateway&) = delete;
  mad_gateway& operator=(const mad_gateway&) = delete;

  /// Returns the socket for an endpoint that connects to another host, or sends a SIDR request to
  /// it. Sets `communication_id`.
  [[nodiscard]] socket_or_error begin(std::uint32_t& communication_id);
  /// Called when a process passes the request of another host, or a rejection that ends a request.
  void remote_request_arrived(std::uint32_t port_key, const frame& request) override;
  /// Called when a message of another host arrives that is not a request.
  void message_arrived(const address& own, const address& peer, const mad& message, time_point now);
  /// Reads the frames of an exchange's endpoint.
  void read(std::uint64_t number, time_point now);
  /// Reads the frames of an exchange's endpoint, so that their messages are sent at once.
  void flush(std::uint32_t communication_id, time_point now);
  /// The program has received data of the connection: it is established, although the last message
  /// of the handshake has not arrived.
  void note_established(std::uint32_t communication_id, time_point now);
  /// Handles the rejection of a peer that gives up its request before an answer, and so does not
  /// have the ID of this side. Returns false if this process has no such request.
  [[nodiscard]] bool request_given_up(const address& peer, const mad& rejection);
  /// Repeats messages and ends exchanges at their deadlines.
  void expire(time_point now);
  [[nodiscard]] time_point next_deadline() const noexcept {
    return deadlines_.empty() ? time_point::max() : deadlines_.begin()->first;
  }

  /// Closes all descriptors. For a child of fork.
  void close_all() noexcept;

 private:
  enum class exchange_state : std::uint8_t {
    begun,          ///< the endpoint has sent no frame yet
    requesting,     ///< active: request sent
    answered,       ///< active: reply received, not confirmed
    requested,      ///< passive: not answered
    replied,        ///< passive: reply sent, not confirmed
    connected,      ///< both sides
    disconnecting,  ///< the peer has not confirmed the end
    ended,          ///< kept to answer repeated messages
    gone,           ///< about to be destroyed: not counted
  };
  /// Identifies an exchange by the peer's address and its communication ID or queue pair number.
  struct peer_id {
    address host;
    std::uint32_t id = 0;
    auto operator<=>(const peer_id& other) const noexcept {
      if (const auto order = host.bytes <=> other.host.bytes; order != 0) return order;
      return id <=> other.id;
    }
    bool operator==(const peer_id& other) const noexcept {
      return host.bytes == other.host.bytes && id == other.id;
    }
  };
  struct mad_exchange {
    std::uint64_t number = 0;
    exchange_state state = exchange_state::begun;
    bool active = false;
    bool is_sidr = false;
    bool rejected = false;  ///< ended by a rejection of this side
    unique_fd socket;       ///< to the endpoint; empty after the endpoint has closed its socket
    address own;
    address peer;
    frame request;  ///< port space and addresses of the exchange
    std::uint32_t own_id = 0;
    std::uint32_t remote_id = 0;
    std::uint64_t transaction = 0;
    std::uint32_t own_qpn = 0;
    std::uint32_t remote_qpn = 0;
    std::array<std::byte, mad_bytes> last_message{};  ///< the message to repeat
    bool has_last_message = false;
    std::chrono::milliseconds interval{};       ///< until the next repetition; 0: on demand
    time_point deadline = time_point::max();    ///< of the next step
    time_point expires_at = time_point::max();  ///< the latest end of the exchange
  };

  [[nodiscard]] mad_exchange* make();
  [[nodiscard]] std::uint32_t unused_id() const;
  [[nodiscard]] mad_exchange* find(std::uint32_t own_id) noexcept;
  [[nodiscard]] int connect_endpoint(mad_exchange& exchange, unique_fd& other);
  void enter(mad_exchange& exchange, exchange_state next);
  void forget(mad_exchange& exchange);
  void close_socket(mad_exchange& exchange) noexcept;
  void set_deadline(mad_exchange& exchange, time_point when);

  void handle(mad_exchange& exchange, const frame& received, time_point now);
  void endpoint_closed(mad_exchange& exchange, time_point now);
  void reject(mad_exchange& exchange, const frame& received, time_point now);
  void reject(mad_exchange& exchange, std::uint32_t reason, time_point now);
  void send_disconnect(mad_exchange& exchange, time_point now);
  [[nodiscard]] bool end_stale_connection(const address& peer, std::uint32_t qpn, time_point now);
  void finish(mad_exchange& exchange, time_point now);
  void remember(mad_exchange& exchange, time_point now);
  void forget_oldest_ended();
  void forward(mad_exchange& exchange, const frame& what);
  void forward(mad_exchange& exchange, frame_kind kind, std::uint32_t reason = 0);

  bool end_given_up(const address& peer, std::uint32_t remote_id, const frame& rejection);
  void reply_arrived(mad_exchange& exchange, const mad& message, time_point now);
  void sidr_reply_arrived(mad_exchange& exchange, const mad& message, time_point now);
  void rejected(mad_exchange& exchange, const mad& message, time_point now);
  void disconnect_arrived(mad_exchange& exchange, const mad& message, time_point now);
  void become_connected(mad_exchange& exchange);
  void mra_arrived(mad_exchange& exchange, const mad& message, time_point now);
  void answer(const address& own, const address& peer, const mad& message);
  void repeat(const mad_exchange& exchange) noexcept;
  [[nodiscard]] mad make_mad(const mad_exchange& exchange, mad_kind kind) const;
  void send_message(mad_exchange& exchange, const mad& what, std::chrono::milliseconds interval,
                    time_point now);

  const manager_options& options_;
  const reactor& watch_;
  mad_carrier* const carrier_;
  request_observer& observer_;
  std::uint64_t next_number_ = 1;
  std::size_t half_open_ = 0;      ///< passive sides in `requested` or `replied`
  std::size_t ended_passive_ = 0;  ///< passive sides in `ended`
  std::unordered_map<std::uint64_t, mad_exchange> exchanges_;
  std::unordered_map<std::uint32_t, std::uint64_t> by_own_id_;
  std::map<peer_id, std::uint64_t> by_peer_;        ///< of passive sides
  std::map<peer_id, std::uint64_t> by_remote_qpn_;  ///< in `connected`
  std::set<std::pair<time_point, std::uint64_t>> deadlines_;
};

}  // namespace verbena::softdev::cm
