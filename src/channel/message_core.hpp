// SPDX-License-Identifier: MIT
// The state of a message channel. The state exists before the queue pair, and takes the queue pair
// when it is connected. The queue pair is always destroyed before the memory that it may access.
//
// Completions. One request per quarter of the send queue is signaled. Each request that takes the
// last place of its kind is also signaled. Therefore, if no place is free, a signaled request is in
// flight. Its completion retires all earlier requests, since a send queue completes in order. To
// detect the completion of an unsignaled tail, a small signaled write is posted if a caller waits
// for the tail, or after many polls without completions.
//
// Credits. Each side has a word that the peer writes: the total number of receives that the peer
// has posted. A side sends message n only if this number, or the negotiated initial number, is at
// least n. Therefore, a receive is posted before each message arrives, and RNR cannot occur. The
// write does not consume a receive, and uses places of the send queue that are reserved for such
// writes.
//
// Progress. If both programs poll and receive, neither side blocks forever. With credits, the
// peer's device completes every request without the peer's program, so places become free. A side
// that waits for credits has used all granted credits. When these messages have arrived, the peer
// has no granted receive left. The peer then posts and grants the next receive as soon as it has a
// free buffer. Only a request can detect that the peer has failed, so a waiting side occasionally
// posts a write as a probe.
//
// Sleeping. An RDMA write generates no completion at the peer, so it does not wake a side that
// waits for an event of its completion queue. Such a side requests in its terms that the peer grant
// credits by RDMA write with immediate data, which consumes receives. The side posts
// `credit_receives` receives in addition to those that it grants. It reads the credit only from the
// immediate data, after it has reposted the consumed receive. Therefore, a message that uses the
// credit of a grant acknowledges that the receive of this grant was reposted. The granting side has
// at most `credit_receives` unacknowledged grants in flight, so RNR cannot occur. If it delays a
// grant for this reason, the peer has unused credit, and the next message of the peer ends the
// delay. The immediate data is the low 32 bits of the count.
//
// iWARP has no immediate data. On iWARP, a timer of the waiting side reads the word: after 50 us,
// and then at intervals that increase to 1 ms. On all transports, the timer also retries to post
// receives if the peer may be waiting and the program holds all buffers, because the return of a
// buffer generates no completion. The timer also posts the probes. It runs only while the channel
// waits.
//
// The operation table of a completion hub, or of the channel itself, delivers the completions. The
// table calls tend() after it has delivered completions to the channel.
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
#include "src/channel/released_queue.hpp"
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

/// The events that recipients wait for. All waits end when the channel ends.
enum class message_event : std::uint8_t {
  arrival,   ///< a message has arrived
  room,      ///< sending a message may succeed
  delivery,  ///< the delivery of all messages is confirmed
};

/// Threads: one thread at a time, with the table.
class message_core final : public table_member {
 public:
  /// Places of the send queue that are reserved for writes of the channel itself, so that credits
  /// never wait for messages.
  static constexpr std::uint32_t notice_places = 2;
  /// Receives for grants by RDMA write with immediate data: the maximum number of such grants in
  /// flight.
  static constexpr std::uint8_t credit_receives = 4;
  /// The bit of wr_id that marks receives. The number in wr_id is the place of a receive, or the
  /// low bits of the number of a request in the send_line.
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

  // Before the connection is established:
  /// Negotiates the terms. Errors: `not_supported` if one side requires credits and the other has
  /// credits off.
  [[nodiscard]] result<void> agree(const message_terms& theirs);
  /// Posts the first receives to a queue pair that the core does not own yet. Until start(), or
  /// until its destructor, the core keeps their buffers, even if the table fails.
  [[nodiscard]] result<void> fill(queue_pair<rc>& queue);
  /// Takes the connected queue pair. Returns an error, and destroys the queue pair, if the table
  /// failed since fill().
  [[nodiscard]] result<void> start(queue_pair<rc> connected);
  /// Keeps the connection of the connection manager until after the queue pair is destroyed.
  void keep(std::shared_ptr<cm::connection> connection) noexcept {
    connection_ = std::move(connection);
  }

  [[nodiscard]] send_result send(std::span<const std::byte> bytes);
  [[nodiscard]] send_result send(buffer& memory, const buffer_slice& part);
  [[nodiscard]] std::optional<buffer> take_buffer();
  /// Moves the next message to `into`; returns false if there is none.
  [[nodiscard]] bool receive(std::optional<received_message>& into);
  [[nodiscard]] bool has_message() const noexcept { return receives_.has_arrived(); }

  /// Polls once. Returns the number of completions.
  int progress();
  /// Polls until `done()` is true. Returns false if `until` passes first or the channel ends. Looks
  /// for a disconnect every 100 ms.
  template <class Done>
  bool wait(deadline until, Done done);
  /// If the connection manager reports that the peer has disconnected, ends the channel, moves the
  /// queue pair to the error state, without waiting for the flush, and returns true. Also returns
  /// true without a queue pair.
  [[nodiscard]] bool flush_if_disconnected();
  /// Calls flush_if_disconnected() every 100 ms.
  void look();
  /// Returns the connection of the connection manager; nullptr without one.
  [[nodiscard]] cm::connection* connection() const noexcept { return connection_.get(); }
  /// Posts a signaled write if unsignaled messages are in flight after the last signaled request.
  void end_silence();
  // Posts a signaled notice if no completion would report the last requests. Returns false if the
  // device refuses it.
  bool signal_last();
  /// Returns true if all messages are delivered. Otherwise ensures that their delivery generates a
  /// completion.
  [[nodiscard]] bool try_drain();
  void flush();
  /// Destroys the queue pair. Returns false if this fails.
  [[nodiscard]] bool close() noexcept;
  /// Keeps a core, which close() could not close, until the process ends.
  void keep_forever() noexcept;

  // Called by the table:
  void completed(const completion& done) noexcept override;
  void tend() override;
  [[nodiscard]] std::optional<time_point> expire(time_point now, std::size_t& events) override;
  void lose(int code) noexcept override;

  /// Adds a recipient that waits for an event. When the event occurs, the recipient is removed and
  /// appended to the completed operations of the table. Recipients are woken in the order in which
  /// they were added.
  ///
  /// For arrival and room, one recipient at a time is woken. If another call has used up the
  /// message or the room, the recipient waits again, `at_front`. Otherwise the recipient calls
  /// settle(), which wakes the next recipient. Precondition: the event has not occurred, or other
  /// recipients wait for it.
  void await(message_event what, queued_waiter& who, bool at_front = false) noexcept;
  /// Removes a waiting recipient. Returns false if the recipient was woken already.
  [[nodiscard]] bool stop_waiting(message_event what, queued_waiter& who) noexcept;
  /// Wakes all recipients, because the channel has ended or is about to be destroyed.
  void wake_all() noexcept;
  /// Returns true if recipients wait for the event.
  [[nodiscard]] bool has_waiting(message_event what) const noexcept {
    return !waiting_[static_cast<std::size_t>(what)].waiters.empty();
  }
  /// Ends the turn of the recipient that was woken for an event.
  void settle(message_event what) noexcept {
    waiting_[static_cast<std::size_t>(what)].has_turn = false;
    wake_next();
  }
  /// Wakes the first recipient of each event that has occurred, unless a recipient of the event has
  /// its turn.
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
  // Moves the queue pair to the error state. If this fails, destroys it and returns false.
  [[nodiscard]] bool move_to_error();
  // The recipients that wait for an event.
  struct waiting_line {
    waiter_list waiters;
    bool has_turn = false;  // a woken recipient has not called settle() yet
  };
  // The purposes of writes of the channel itself.
  enum class notice : std::uint8_t { grant, probe, tail };

  // Returns the reason why a message of `bytes` bytes cannot be posted now, or `none`.
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
  // Retires all sends before `end`. After the first send that may be undelivered, delivered_ no
  // longer changes.
  void retire_before(std::uint64_t end, bool were_delivered) noexcept;
  void receive_ended(const completion& done) noexcept;
  void credit_arrived(std::uint32_t place, std::uint32_t low) noexcept;
  void fail(const message_failure& why) noexcept;
  void fail_posting(int code) noexcept;
  // Records the failure and moves the queue pair to the error state.
  void end_because(const message_failure& why) noexcept;
  [[nodiscard]] error describe_violation(const completion& done) const;

  parts own_;
  send_line sends_;
  receive_line receives_;
  std::shared_ptr<cm::connection> connection_;
  deadline next_look_ = deadline::after({});  // of look()
  std::optional<queue_pair<rc>> queue_;
  released_queue released_;  // between fill() and start()

  // Negotiated:
  std::uint32_t message_bytes_ = 0;
  std::uint32_t inline_bytes_ = 0;
  std::uint32_t peer_receives_ = 0;
  std::uint8_t peer_credit_receives_ = 0;  // 0: the peer reads credits from its word
  bool uses_credits_ = false;
  bool is_woken_by_credits_ = false;  // credits arrive as immediate data
  remote_region peer_word_;

  std::uint64_t sent_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t ended_ = 0;  // messages that have completed or failed
  std::uint64_t received_ = 0;
  std::uint64_t taken_ = 0;    // of these, taken by the program
  std::uint64_t credit_ = 0;   // total number of messages that the peer has granted
  std::uint64_t posted_ = 0;   // total number of posted receives
  std::uint64_t granted_ = 0;  // of these, granted to the peer
  std::uint64_t notices_ = 0;  // since the beginning
  std::uint64_t grants_ = 0;   // of these, with immediate data
  // The value of granted_ before each of the most recent grants with immediate data.
  std::array<std::uint64_t, credit_receives> before_grant_{};
  std::uint32_t idle_polls_ = 0;
  std::uint32_t polls_without_credit_ = 0;  // since a message was refused with no_credit
  bool has_gap_ = false;                    // a send may be undelivered
  bool lacks_credit_ = false;               // the last message was refused with no_credit
  bool lacks_buffer_ = false;               // the last message was refused with no_buffer
  bool tail_is_due_ = false;                // end_silence() had no place
  bool is_stuck_ = false;                   // the queue pair could not be destroyed
  bool pool_is_empty_ = false;              // the last time that receives were posted
  // State of the timer:
  std::chrono::nanoseconds retry_interval_{};  // 0: the timer is not running
  std::chrono::nanoseconds probe_interval_{};
  time_point next_probe_{};
  std::array<waiting_line, 3> waiting_{};
  std::optional<message_failure> failure_;
  message_counters counters_;
  message_core* next_kept_ = nullptr;  // by keep_forever()
};

template <class Done>
bool message_core::wait(deadline until, Done done) {
  constexpr std::uint32_t polls_per_clock_read = 64;
  for (std::uint32_t polls = 1; !done(); ++polls) {
    const bool idle = progress() == 0;
    if (has_ended()) return done();
    if (polls % polls_per_clock_read == 0) {
      look();
      if (until.expired()) return done();
    }
    if (idle) relax();
  }
  return true;
}

}  // namespace verbena::inline VERBENA_ABI::detail
