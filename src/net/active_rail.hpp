// SPDX-License-Identifier: MIT
// One rail of a multi_rail_channel: its queue pair, the pieces in flight, and its health.
//
//   connecting --answer--> active --port error, failed operation, deadline--> down or held_down
//   down --both ports active--> held_down --hold-down has passed, fenced--> connecting
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/net/rail_message.hpp"
#include "src/net/rail_transfer.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/completed_operation.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/channel/prepared_channel.hpp"
#include "verbena/net/rail.hpp"
#include "verbena/verbs/async_event.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Threads: one thread at a time.
class active_rail {
 public:
  using clock = deadline::clock;
  static constexpr std::chrono::seconds time_for_flush{5};

  /// Creates a rail that is to be connected at once. Errors: those of completion_hub::create().
  [[nodiscard]] static result<active_rail> create(std::uint32_t index, const rail_port& port,
                                                  const rail_options& options);

  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] const rail_port& port() const noexcept { return port_; }
  [[nodiscard]] const rail_status& status() const noexcept { return status_; }
  [[nodiscard]] bool is_active() const noexcept { return status_.state == rail_state::active; }
  [[nodiscard]] bool is_connecting() const noexcept {
    return status_.state == rail_state::connecting;
  }
  /// Returns whether the peer has confirmed that the earlier queue pairs execute no requests.
  [[nodiscard]] bool is_fenced() const noexcept { return health_.fenced; }
  [[nodiscard]] bool has_room() const noexcept { return is_active() && !free_.empty(); }
  [[nodiscard]] std::uint64_t bytes_in_flight() const noexcept { return bytes_in_flight_; }
  [[nodiscard]] bool has_pieces_in_flight() const noexcept { return free_.size() != slots_.size(); }
  /// Returns whether pieces failed that may have been, or may still be, executed.
  [[nodiscard]] bool has_lost_pieces() const noexcept { return !lost_.empty(); }

  /// Posts a piece. Returns false if the device refuses it, which refuses the operation.
  /// Precondition: has_room().
  [[nodiscard]] bool post(rail_transfer& of, const rail_piece& piece);
  /// Delivers completions. Returns whether the rail must fail because of them. Precondition: pieces
  /// in flight belong to `of`, which is nullptr if no operation is in progress.
  [[nodiscard]] std::optional<rail_cause> poll(rail_transfer* of);
  /// Moves the queue pair to the error state, without waiting for the flush. fail() follows.
  void begin_to_flush() noexcept;
  /// Ends the connection, and asks the peer for the fence. Pieces in flight are lost. Waits until
  /// `flushed` for the flush.
  void fail(rail_cause why, rail_transfer* of, rail_control& peer,
            deadline flushed = deadline::after(time_for_flush));
  /// Moves the lost pieces to the operation, which repeats them. Precondition: is_fenced().
  void repeat_lost(rail_transfer& of);
  void forget_lost() noexcept { lost_.clear(); }
  /// Destroys the queue pair of an operation that an exception ended. advance() then asks the peer
  /// for the fence. Does not allocate.
  void disconnect() noexcept;

  /// Handles an event of the device. Returns whether the rail must fail because of it.
  [[nodiscard]] std::optional<rail_cause> take(const async_event& event);
  /// Handles a message for this rail. Returns whether the rail must fail because of it.
  [[nodiscard]] std::optional<rail_cause> take(const rail_message& message);
  /// Makes the changes of state that are due. Queries the port of a rail that is not active.
  void advance(clock::time_point now, rail_control& peer);

  /// Returns `rail 0 (port 1 of soft0): down, the local port is down`.
  [[nodiscard]] std::string describe() const;

 private:
  // The values on which the next connection depends.
  struct health {
    std::uint32_t generation = 0;  // of the last connection
    bool fenced = true;
    bool must_ask = false;  // the peer for the fence
    bool own_port = true;
    bool peer_port = true;
    bool has_carried = false;           // a piece has succeeded since the rail became active
    clock::time_point since = {};       // of the state held_down
    clock::time_point next_query = {};  // of the port
    std::chrono::nanoseconds hold_down = {};
  };

  active_rail(std::uint32_t index, const rail_port& port, const rail_options& options,
              completion_hub hub);
  [[nodiscard]] std::optional<rail_cause> settle(const completed_operation& ended,
                                                 rail_transfer* of);
  [[nodiscard]] result<prepared_channel> prepare_channel();
  [[nodiscard]] std::chrono::nanoseconds pause() const noexcept;
  void rest(std::chrono::nanoseconds hold_down) noexcept;
  void require_fence() noexcept;
  void ask_for_fence(rail_control& peer);
  void begin_to_connect(rail_control& peer);
  void finish_to_connect(const rail_message& answer);
  void miss(error why);
  [[nodiscard]] std::optional<rail_cause> note_port(bool& which, bool up, rail_cause why);

  std::uint32_t index_;
  rail_port port_;
  rail_options options_;
  completion_hub hub_;
  bool has_failed_queue_ = false;  // IBV_EVENT_CQ_ERR
  bool has_refused_ = false;  // a piece, since the rail became active: not a failure of the rail
  std::optional<prepared_channel> prepared_;
  std::optional<channel> channel_;
  std::vector<rail_piece> slots_;  // by tag
  std::vector<std::uint32_t> free_;
  std::vector<rail_piece> lost_;
  std::uint64_t bytes_in_flight_ = 0;
  rail_status status_;
  health health_;
  std::optional<error> last_error_;  // of a piece or a connection
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
