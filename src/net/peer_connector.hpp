// SPDX-License-Identifier: MIT
// Connects the channels of a group at their first operations. The active side sends a request to
// the acceptor of the peer. Queue pairs that were connected at the request of peers are taken from
// the pair_table of the own acceptor. Idle connections are closed in idle_pairs.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "src/net/connection_acceptor.hpp"
#include "src/net/connection_message.hpp"
#include "src/net/pair_maker.hpp"
#include "src/net/pair_table.hpp"
#include "src/net/retry_pauses.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/net/multi_channel.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The options of the streams between a connector and an acceptor.
inline constexpr bringup::stream_options small_messages{.max_blob_bytes =
                                                            max_connection_message_bytes};

/// Threads: one thread at a time, with the channels.
class peer_connector final : public verbena::detail::first_use,
                             public std::enable_shared_from_this<peer_connector> {
 public:
  /// The rank, the group size and the host of a connector.
  struct place {
    std::uint32_t rank;
    std::uint32_t size;
    std::string host;                    ///< the address or name at which peers reach this host
    deadline until = deadline::never();  ///< the time limit for resolving a name
    /// The time limit of one request to close a connection.
    std::chrono::nanoseconds time_to_close = std::chrono::seconds(2);
  };
  /// Starts the acceptor, which rejects requests until open(). Errors: `invalid_argument` if an
  /// option is out of range or the host is a wildcard address; those of bringup::listener::open(),
  /// eventfd(2) and pthread_create(3).
  [[nodiscard]] static result<std::shared_ptr<peer_connector>> start(
      const place& at, pair_maker maker, const first_use_options& options);
  peer_connector(const place& at, pair_maker maker, const first_use_options& options);
  peer_connector(const peer_connector&) = delete;
  peer_connector& operator=(const peer_connector&) = delete;
  ~peer_connector() = default;

  /// Returns the contact of this rank.
  [[nodiscard]] rank_contact contact(const remote_region& board) const;
  /// Sets the contacts of all ranks.
  void set_contacts(std::vector<rank_contact> contacts) { contacts_ = std::move(contacts); }
  /// Sets the channels of the group, which remain at their address until end(). Their idle
  /// connections can be closed from now on.
  void set_channels(multi_channel& channels) noexcept { channels_ = &channels; }
  /// Closes the connections that have not been used since the last call, as far as the peers agree.
  /// Returns their number. Blocks until `until`.
  std::uint32_t close_idle(deadline until);
  /// Accepts requests of the members in epoch `epoch` from now on.
  void open(std::uint32_t epoch, std::span<const std::uint32_t> members);
  /// Rejects requests until the next open(), while the members change.
  void close() { pairs_.close(); }
  /// Stops the acceptor and removes all peers. Afterwards, no channel can be connected. Blocks.
  void end();
  /// Marks a peer as not connected, so that it can be connected again. Precondition: its channel
  /// has no queue pair.
  void forget(std::uint32_t peer);
  /// Does the same as forget(), and rejects requests of the rank, which is no longer a member.
  void remove(std::uint32_t peer);
  /// Returns the time limit for connecting a channel in operations without a deadline.
  [[nodiscard]] std::chrono::nanoseconds timeout() const noexcept { return timeout_; }
  [[nodiscard]] first_use_statistics statistics() const { return pairs_.statistics(); }

  [[nodiscard]] result<void> connect(verbena::detail::channel_core& which, std::uint32_t peer,
                                     deadline until) override;
  [[nodiscard]] bool has_queue_pair(std::uint32_t peer) const override {
    return pairs_.has_made(peer);
  }

 private:
  struct failed_attempt {
    error why;
    bool is_final;
    bool has_no_room = false;  ///< the budget of this process is in use
  };
  using attempt = std::variant<made_pair, failed_attempt>;

  [[nodiscard]] attempt ask(std::uint32_t peer, const pair_request& as, deadline until);
  [[nodiscard]] attempt ask(std::uint32_t peer, const pair_request& as, unmade_pair mine,
                            deadline until);
  [[nodiscard]] failed_attempt explain(std::uint32_t peer, const connect_answer& why) const;
  [[nodiscard]] result<void> connect_to_self(verbena::detail::channel_core& which, deadline until);
  void install(verbena::detail::channel_core& which, std::uint32_t peer, made_pair made);
  /// Installs the queue pair that the table had. Precondition: there is one.
  void take(verbena::detail::channel_core& which, std::uint32_t peer, pair_table::turn turn);
  /// Detaches the queue pair of a channel: returns it to the table. Returns false if the channel is
  /// not idle.
  bool detach(const connected_pair& which);
  /// Asks the peer to close a pair that the table has. Errors: those of the connection to the
  /// acceptor; EAGAIN if the peer is connecting the pair.
  [[nodiscard]] result<close_answer> close(std::uint32_t peer, deadline until);
  [[nodiscard]] result<close_answer> ask_to_close(std::uint32_t peer, pair_closing& as,
                                                  deadline until) const;
  /// Closes the least recently used idle connections, so that others can be made. Returns false if
  /// none could be closed.
  [[nodiscard]] bool make_room(deadline until);
  [[nodiscard]] error fail(std::uint32_t peer, int code, const std::string& why) const;
  [[nodiscard]] error no_room_here(std::uint32_t peer) const;

  std::uint32_t rank_;
  std::uint32_t epoch_ = 0;
  std::chrono::nanoseconds timeout_;
  std::chrono::nanoseconds time_to_close_;
  pair_maker maker_;
  connection_token token_ = {};
  std::uint64_t seed_;
  std::vector<rank_contact> contacts_;
  std::vector<queue_pair_share> shares_;  // of the channels
  multi_channel* channels_ = nullptr;
  std::uint32_t first_to_close_ = 0;  // by the next close_idle()
  pair_table pairs_;
  std::optional<connection_acceptor> acceptor_;
  bringup::address local_;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
