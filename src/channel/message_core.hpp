// SPDX-License-Identifier: MIT
// The state of a message channel. It exists before the queue pair, which it takes when that is
// connected; the queue pair is always destroyed before the memory that it may access.
//
// Completions. One request per quarter of the send queue is signaled, and every request that takes
// the last place of its kind. Therefore, whenever a place is missing, a signaled request is in
// flight. Its completion retires all requests before it, since a send queue completes in order. A
// small signaled write detects the completion of an unsignaled tail: if a caller waits for it, or
// after many polls without completions.
//
// Credits. Each side has a word that the peer writes: the number of receives that the peer has
// posted since the beginning. A side sends message n only if this number, or the negotiated initial
// number, is at least n. A receive is therefore posted before each message arrives, and RNR cannot
// occur. The write consumes no receive, and has places of the send queue that messages do not use.
//
// Progress. If both programs poll and receive, neither side blocks forever. With credits, the
// peer's adapter completes every request without the peer's program, so places become free. A side
// that waits for credits has used all granted credits. When these messages arrive at the peer, no
// granted receive is left there. The peer then posts and grants the next receive as soon as it has
// a buffer. Only a request can detect that the peer is dead, so a waiting side sends an occasional
// write as a probe.
//
// Sleeping. A write causes no completion at the peer, so it does not wake a side that sleeps until
// its completion queue has an event. Such a side requests in its terms that the peer grant credits
// by WRITE WITH IMMEDIATE, which consumes receives. It posts `credit_receives` receives in addition
// to those that it grants. It takes the credit only from the immediate data, after it has posted
// the consumed receive again. A message that uses the credit of a grant is therefore the
// acknowledgement that the receive of this grant is posted again. The granting side has at most
// `credit_receives` grants in flight without this acknowledgement, so RNR cannot occur. If it
// withholds a grant for that reason, the peer has unused credit, and the next message of the peer
// ends the wait. The immediate data are the low 32 bits of the count.
//
// iWARP has no immediate data. There, a waiting side reads the word by a timer: after 50 us, and
// then at intervals that grow to 1 ms. The timer also retries to post receives if the peer may wait
// and the program holds all buffers, because the return of a buffer causes no completion. It also
// sends the probes. It runs only while the channel waits.
//
// The operation table of a completion hub, or of the channel itself, delivers the completions. The
// table calls tend() after completions, so the hub has to look only at their number.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "src/base/relax.hpp"
#include "src/channel/receive_line.hpp"
#include "src/channel/send_line.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/channel/detail/operation_table.hpp"
#include "verbena/channel/message_channel.hpp"
#include "verbena/channel/message_channel_options.hpp"
#include "verbena/channel/message_counters.hpp"
#include "verbena/channel/message_endpoint.hpp"
#include "verbena/channel/message_failure.hpp"
#include "verbena/memory/buffer_pool.hpp"
#include "verbena/memory/exported_memory.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"

namespace verbena::inline VERBENA_ABI::cm {
class connection;
}

namespace verbena::inline VERBENA_ABI::detail {

/// The events for which recipients wait. The end of the channel ends all waits.
enum class message_event : std::uint8_t {
  arrival,   ///< a message has arrived
  room,      ///< sending may succeed
  delivery,  ///< all messages are known to be delivered
};

/// Threads: one thread at a time, with its table.
class message_core final : public table_member {
 public:
  /// Places of the send queue that messages do not use, so that credits never wait for messages.
  static constexpr std::uint32_t notice_places = 2;
  /// Receives for grants by write with immediate; the peer uses as many at most.
  static constexpr std::uint8_t credit_receives = 4;
  /// The bit of wr_id that marks receives. Their number is the place, that of sends the low bits of
  /// the number in the send_line.
  static constexpr std::uint64_t receive_bit = mark;

  /// The parts of a core.
  struct parts {
    protection_domain domain;
    slot_reservation places;  ///< one entry of the completion queue per place
    buffer_pool receives;
    buffer_pool sends;
    memory_region counts;                 ///< one word per notice place
    exported_memory<std::uint64_t> word;  ///< the credit word, which the peer writes
    message_channel_options options;
    message_terms terms;  ///< of this side
  };
  explicit message_core(parts of);
  /// Precondition: close() has returned true.
  ~message_core() override;

  [[nodiscard]] const message_terms& terms() const noexcept { return own_.terms; }
  [[nodiscard]] operation_table& table() const noexcept { return own_.places.table(); }
  [[nodiscard]] const std::shared_ptr<operation_table>& shared_table() const noexcept {
    return own_.places.shared();
  }
  [[nodiscard]] const completion_queue& cq() const noexcept { return table().cq(); }

  // Before the connection:
  /// Negotiates the terms.
  [[nodiscard]] result<void> agree(const message_terms& theirs);
  /// Posts the first receives to a queue pair that the core does not own yet.
  [[nodiscard]] result<void> fill(queue_pair<rc>& queue);
  /// Takes the connected queue pair.
  void start(queue_pair<rc> connected) noexcept;
  /// Keeps the connection of the connection manager until after the queue pair is destroyed.
  void keep(std::shared_ptr<cm::connection> connection) noexcept {
    connection_ = std::move(connection);
  }

  [[nodiscard]] send_result send(std::span<const std::byte> bytes);
  [[nodiscard]] send_result send(buffer& memory, const buffer_slice& part);
  [[nodiscard]] std::optional<buffer> take_buffer();
  [[nodiscard]] std::optional<received_message> receive();
  [[nodiscard]] bool has_message() const noexcept { return receives_.has_arrived(); }

  /// Polls once; returns the number of completions.
  int progress();
  /// Polls until `done()`; returns false if `until` passes first or the channel ends.
  template <class Done>
  bool wait(deadline until, Done done);
  /// Posts a signaled write if unsignaled messages are in flight behind the last signaled request.
  void end_silence();
  /// Returns whether all messages are delivered. If not, their delivery causes a completion.
  [[nodiscard]] bool try_drain();
  void flush();
  /// Destroys the queue pair; returns false if that is refused.
  [[nodiscard]] bool close() noexcept;

  // Called by the table:
  void completed(const completion& done) noexcept override;
  void tend() override;
  [[nodiscard]] std::optional<time_point> expire(time_point now, std::size_t& events) override;
  void lose(int code) noexcept override;

  /// Appends a recipient to those that wait for an event. When it occurs, the recipient is appended
  /// to the completed operations of the table, in the order of waiting, and waits no longer.
  ///
  /// For an arrival and for room, one recipient at a time is woken. Another call may have used up
  /// the message or the room: then the recipient waits again, at the front of the others. Otherwise
  /// it calls settle(), which wakes the next. Precondition: the event has not occurred, or others
  /// wait for it.
  void await(message_event what, queued_waiter& who, bool at_front = false) noexcept;
  /// Removes a recipient from those that wait; returns false if it was woken.
  [[nodiscard]] bool stop_waiting(message_event what, queued_waiter& who) noexcept;
  /// Wakes all recipients: the channel is about to be destroyed.
  void wake_all() noexcept;
  /// Returns true if others wait for the event.
  [[nodiscard]] bool has_waiting(message_event what) const noexcept {
    return !waiting_[static_cast<std::size_t>(what)].waiters.empty();
  }
  /// Ends the turn of the recipient that was woken for an event.
  void settle(message_event what) noexcept {
    waiting_[static_cast<std::size_t>(what)].has_turn = false;
    wake_next();
  }
  /// Wakes the first recipient of each event that has occurred, unless another has its turn.
  void wake_next() noexcept;

  [[nodiscard]] bool has_ended() const noexcept { return failure_.has_value(); }
  [[nodiscard]] const std::optional<message_failure>& failure() const noexcept { return failure_; }
  [[nodiscard]] error describe() const;
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] std::uint64_t delivered() const noexcept { return delivered_; }
  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
  [[nodiscard]] message_counters& counters() noexcept { return counters_; }
  [[nodiscard]] std::uint32_t message_bytes() const noexcept { return message_bytes_; }
  [[nodiscard]] std::uint32_t inline_bytes() const noexcept { return inline_bytes_; }
  [[nodiscard]] bool uses_credits() const noexcept { return uses_credits_; }
  [[nodiscard]] const buffer_pool& receive_pool() const noexcept { return own_.receives; }
  [[nodiscard]] const std::optional<queue_pair<rc>>& qp() const noexcept { return queue_; }

 private:
  // The recipients that wait for one event.
  struct waiting_line {
    waiter_list waiters;
    bool has_turn = false;  // a recipient that was woken has not called settle()
  };
  // The reasons for a write of the channel itself.
  enum class notice : std::uint8_t { grant, probe, tail };

  // Returns why a message of `bytes` cannot be posted now.
  [[nodiscard]] send_refusal refusal_for(std::size_t bytes);
  [[nodiscard]] send_refusal missing() noexcept;
  [[nodiscard]] bool has_credit() noexcept;
  template <class Data>
  [[nodiscard]] send_result post_message(const Data& data, buffer&& held);

  void post_notice(notice why);
  [[nodiscard]] bool may_grant() const noexcept;
  [[nodiscard]] bool accept_credit(std::uint64_t granted) noexcept;
  [[nodiscard]] bool is_worth_sending() noexcept;
  [[nodiscard]] bool is_starved() const noexcept;
  void replenish();
  [[nodiscard]] post_status post_receives(queue_pair<rc>& queue);
  void grant_credits();
  void probe_for_credit();
  void post_probe();
  void start_timer_if_needed() noexcept;
  void wake_first(message_event what) noexcept;

  void send_ended(const completion& done) noexcept;
  // Retires all sends before `end`. After the first one that may be undelivered, delivered_ is
  // final.
  void retire_before(std::uint64_t end, bool were_delivered) noexcept;
  void receive_ended(const completion& done) noexcept;
  void credit_arrived(std::uint32_t place, std::uint32_t low) noexcept;
  void fail(const message_failure& why) noexcept;
  void fail_posting(int code) noexcept;

  parts own_;
  send_line sends_;
  receive_line receives_;
  std::shared_ptr<cm::connection> connection_;
  std::optional<queue_pair<rc>> queue_;

  // Negotiated:
  std::uint32_t message_bytes_ = 0;
  std::uint32_t inline_bytes_ = 0;
  std::uint32_t peer_receives_ = 0;
  std::uint8_t peer_credit_receives_ = 0;  // 0: the credits of the peer are written
  bool uses_credits_ = false;
  bool is_woken_by_credits_ = false;  // credits arrive as immediate data
  remote_region peer_word_;

  std::uint64_t sent_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t ended_ = 0;  // messages that have completed or failed
  std::uint64_t received_ = 0;
  std::uint64_t taken_ = 0;    // of these, received by the program
  std::uint64_t credit_ = 0;   // messages that the peer has granted since the beginning
  std::uint64_t posted_ = 0;   // receives since the beginning
  std::uint64_t granted_ = 0;  // of these, granted to the peer
  std::uint64_t notices_ = 0;  // since the beginning
  std::uint64_t grants_ = 0;   // of these, with immediate data
  // The value of granted_ before each of the last grants with immediate data.
  std::array<std::uint64_t, credit_receives> before_grant_{};
  std::uint32_t idle_polls_ = 0;
  std::uint32_t polls_without_credit_ = 0;  // since a message was refused with no_credit
  bool has_gap_ = false;                    // a send may be undelivered
  bool lacks_credit_ = false;               // the last message was refused with no_credit
  bool lacks_buffer_ = false;               // the last message was refused with no_buffer
  bool tail_is_due_ = false;                // end_silence() had no place
  bool is_stuck_ = false;                   // the queue pair could not be destroyed
  bool pool_is_empty_ = false;              // when receives were last posted
  // Of the timer:
  std::chrono::nanoseconds retry_interval_{};  // 0: the timer is not running
  std::chrono::nanoseconds probe_interval_{};
  time_point next_probe_{};
  std::array<waiting_line, 3> waiting_{};
  std::optional<message_failure> failure_;
  message_counters counters_;
};

template <class Done>
bool message_core::wait(deadline until, Done done) {
  constexpr std::uint32_t polls_per_clock_read = 64;
  for (std::uint32_t polls = 0; !done();) {
    const bool idle = progress() == 0;
    if (has_ended() || (++polls % polls_per_clock_read == 0 && until.expired())) return done();
    if (idle) relax();
  }
  return true;
}

}  // namespace verbena::inline VERBENA_ABI::detail
