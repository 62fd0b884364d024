// SPDX-License-Identifier: MIT
// Conversations with connection managers of other hosts. An endpoint has a socket to its peer, over
// which it exchanges frames. If the peer is on another host, the other end of the socket is here:
// frames become management datagrams (MADs), and answers become frames. What can be lost is sent
// again, and what comes again is recognized.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "softdev/cm/mad.hpp"
#include "softdev/cm/mad_carrier.hpp"
#include "softdev/cm/manager_options.hpp"
#include "softdev/cm/newcomers.hpp"
#include "softdev/ipc/local_socket.hpp"
#include "softdev/ipc/reactor.hpp"

namespace verbena::softdev::cm {

/// The slot of the process that has given a conversation this number.
[[nodiscard]] std::uint32_t slot_of_conversation(std::uint32_t id) noexcept;

/// Passes the request of another host to the process of this user that listens, with one frame. 0,
/// EAGAIN if it has too much to do, or ECONNREFUSED if nobody listens. Does not block.
[[nodiscard]] int pass_to_listener(const mad& request);

/// The answer to a request that nobody takes; `reason` is a reject_reason.
[[nodiscard]] mad refusal_of(const mad& request, std::uint32_t reason) noexcept;
/// The answer to a message about a conversation that this process does not know; nullopt if such a
/// message has no answer.
[[nodiscard]] std::optional<mad> answer_to_unknown(const mad& said) noexcept;

/// Threads: thread-safe by its manager, which calls it with its lock held.
class mad_gateway final : public remote_request_observer {
 public:
  /// All outlive it. `told` learns of requests.
  mad_gateway(const manager_options& options, const reactor& watch, mad_carrier* carrier,
              newcomer_observer& told) noexcept
      : options_(options), watch_(watch), carrier_(carrier), observer_(told) {}
  mad_gateway(const mad_gateway&) = delete;
  mad_gateway& operator=(const mad_gateway&) = delete;

  /// The end of an endpoint that asks another host for a connection, or looks up a service there.
  /// `conversation` becomes its number.
  [[nodiscard]] socket_or_error begin(std::uint32_t& conversation);
  /// A process passes the request of another host.
  void remote_request_arrived(std::uint32_t port_key, const frame& asked) override;
  /// A message of another host that is no request.
  void message_arrived(const address& own, const address& peer, const mad& said, time_point now);
  /// Reads what the endpoint of a conversation has sent.
  void read(std::uint64_t number, time_point now);
  /// Reads what the endpoint of a conversation has sent, so that it leaves the process at once.
  void flush(std::uint32_t conversation, time_point now);
  /// Does what is due.
  void expire(time_point now);
  [[nodiscard]] time_point next_deadline() const noexcept {
    return deadlines_.empty() ? time_point::max() : deadlines_.begin()->first;
  }

  /// Closes all descriptors. For a child of fork.
  void close_all() noexcept;

 private:
  enum class stage : std::uint8_t {
    begun,          ///< the endpoint has said nothing yet
    requesting,     ///< active: the request is on its way
    answered,       ///< active: the reply is here, not confirmed
    requested,      ///< passive: not answered
    replied,        ///< passive: the reply is on its way
    connected,      ///< both
    disconnecting,  ///< the peer has not confirmed the end
    ended,          ///< remembered for repeated messages
  };
  /// Numbers the conversation at the peer.
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
  struct dialog {
    std::uint64_t number = 0;
    stage at = stage::begun;
    bool active = false;
    bool lookup = false;
    unique_fd end;  ///< to the endpoint; empty when it has closed its end
    address own;
    address peer;
    frame request;  ///< what it is about: port space and addresses
    std::uint32_t own_id = 0;
    std::uint32_t remote_id = 0;
    std::uint64_t transaction = 0;
    std::uint32_t own_pair = 0;
    std::uint32_t remote_pair = 0;
    std::array<std::byte, mad_bytes> last{};  ///< what is sent again
    bool has_last = false;
    std::chrono::milliseconds interval{};      ///< until it is sent again; 0: when it is missed
    time_point deadline = time_point::max();   ///< of the next step
    time_point forget_at = time_point::max();  ///< the end of the conversation at the latest
  };

  [[nodiscard]] dialog* make();
  [[nodiscard]] std::uint32_t unused_id() const;
  [[nodiscard]] dialog* find(std::uint32_t own_id) noexcept;
  [[nodiscard]] int connect_end(dialog& which, unique_fd& other);
  void enter(dialog& which, stage next);
  void forget(dialog& which);
  void close_end(dialog& which) noexcept;
  void set_deadline(dialog& which, time_point when);

  void handle(dialog& which, const frame& said, time_point now);
  void end_closed(dialog& which, time_point now);
  void reject(dialog& which, const frame& said, time_point now);
  void ask_for_end(dialog& which, time_point now);
  void finish(dialog& which, time_point now);
  void tell(dialog& which, const frame& what);
  void tell(dialog& which, frame_kind kind, std::uint32_t reason = 0);

  void reply_arrived(dialog& which, const mad& said);
  void lookup_answered(dialog& which, const mad& said, time_point now);
  void end_arrived(dialog& which, const mad& said, time_point now);
  void delay(dialog& which, const mad& said, time_point now);
  void answer(const address& own, const address& peer, const mad& said);
  void repeat(const dialog& which) noexcept;
  [[nodiscard]] mad message(const dialog& which, mad_kind kind) const;
  void say(dialog& which, const mad& what, std::chrono::milliseconds interval, time_point now);

  const manager_options& options_;
  const reactor& watch_;
  mad_carrier* const carrier_;
  newcomer_observer& observer_;
  std::uint64_t next_number_ = 1;
  std::size_t half_open_ = 0;  ///< passive sides in `requested` or `replied`
  std::unordered_map<std::uint64_t, dialog> dialogs_;
  std::unordered_map<std::uint32_t, std::uint64_t> by_own_id_;
  std::map<peer_id, std::uint64_t> by_peer_;  ///< of passive sides
  std::set<std::pair<time_point, std::uint64_t>> deadlines_;
};

}  // namespace verbena::softdev::cm
