// SPDX-License-Identifier: MIT
// What a message channel consists of. It exists before the queue pair, which it takes over once
// that is connected; the queue pair always goes before the memory that it may touch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "src/channel/receive_line.hpp"
#include "src/channel/relax.hpp"
#include "src/channel/send_line.hpp"
#include "verbena/channel/message_channel.hpp"
#include "verbena/channel/message_endpoint.hpp"
#include "verbena/memory/remote_window.hpp"
#include "verbena/verbs/completion_queue.hpp"

namespace verbena::inline VERBENA_ABI::cm {
class connection;
}

namespace verbena::inline VERBENA_ABI::detail {

/// Threads: one thread at a time.
class message_core {
 public:
  /// Places of the send queue that messages do not take: credits never wait for messages.
  static constexpr std::uint32_t notice_places = 2;
  /// Requests to receive have it in their number, beside the place.
  static constexpr std::uint64_t receive_bit = std::uint64_t{1} << 63U;

  /// What it is made of.
  struct parts {
    protection_domain domain;
    completion_queue cq;  ///< an entry for each place
    buffer_pool receives;
    buffer_pool sends;
    memory_region counts;               ///< a word for each place of a notice
    remote_window<std::uint64_t> word;  ///< which the peer writes
    message_channel_options options;
    message_terms terms;  ///< of this side
  };
  explicit message_core(parts of);

  [[nodiscard]] const message_terms& terms() const noexcept { return own_.terms; }
  [[nodiscard]] const completion_queue& cq() const noexcept { return own_.cq; }

  // Before there is a connection.
  /// Settles what both sides use.
  [[nodiscard]] result<void> agree(const message_terms& theirs);
  /// Posts the first receives, to a queue pair that is not this core's yet.
  [[nodiscard]] result<void> fill(queue_pair<rc>& queue);
  /// Takes over the connected queue pair.
  void start(queue_pair<rc> connected) noexcept;
  /// What the queue pair was connected by: it goes after the queue pair.
  void keep(std::shared_ptr<cm::connection> connection) noexcept {
    connection_ = std::move(connection);
  }

  [[nodiscard]] send_result send(std::span<const std::byte> bytes);
  [[nodiscard]] send_result send(buffer& memory, const buffer_part& part);
  [[nodiscard]] std::optional<buffer> take_buffer();
  [[nodiscard]] std::optional<received_message> receive();

  /// Polls once; how many completions it found.
  int progress();
  /// Progress until `done()`; false when `until` passes first, or all has ended.
  template <class Done>
  bool wait(deadline until, Done done);
  /// Asks for the end of all that was posted, if nobody has.
  void end_silence();
  void flush();
  /// Destroys the queue pair: false if that is refused.
  [[nodiscard]] bool close() noexcept;

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
  [[nodiscard]] const std::optional<queue_pair<rc>>& queue() const noexcept { return queue_; }

 private:
  // Why a message of `bytes` cannot be posted now.
  [[nodiscard]] send_refusal obstacle(std::size_t bytes);
  [[nodiscard]] send_refusal missing() noexcept;
  [[nodiscard]] bool has_credit() noexcept;
  template <class Data>
  [[nodiscard]] send_result post_message(const Data& data, buffer&& held);

  void post_notice(bool signaled);
  void replenish();
  [[nodiscard]] post_status post_receives(queue_pair<rc>& queue);
  void tell_credits();
  void probe_for_credit();
  void tend();

  void send_ended(const completion& done) noexcept;
  // All sends before `end` are over. Once one was not delivered for sure, none behind it was.
  void retire_before(std::uint64_t end, bool were_delivered) noexcept;
  void receive_ended(const completion& done) noexcept;
  void fail(const message_failure& why) noexcept;
  void fail_posting(int code) noexcept;
  void lose(int code) noexcept;

  parts own_;
  send_line sends_;
  receive_line receives_;
  std::shared_ptr<cm::connection> connection_;
  std::optional<queue_pair<rc>> queue_;

  // As agreed.
  std::uint32_t message_bytes_ = 0;
  std::uint32_t inline_bytes_ = 0;
  std::uint32_t peer_receives_ = 0;
  bool uses_credits_ = false;
  remote_region peer_word_;

  std::uint64_t sent_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t ended_ = 0;  // messages that are over, one way or the other
  std::uint64_t received_ = 0;
  std::uint64_t taken_ = 0;    // of these, by the program
  std::uint64_t credit_ = 0;   // messages that the peer has let us send since the beginning
  std::uint64_t posted_ = 0;   // receives since the beginning
  std::uint64_t told_ = 0;     // of these, the peer was told
  std::uint64_t notices_ = 0;  // since the beginning
  std::uint32_t idle_polls_ = 0;
  std::uint32_t polls_without_credit_ = 0;  // since a message was refused for want of it
  bool has_gap_ = false;                    // a send has ended of which it is not known
  bool lacks_credit_ = false;               // the last message was refused for want of it
  bool is_stuck_ = false;                   // the queue pair could not be destroyed
  bool pool_is_empty_ = false;              // found so when receives were to be posted
  std::optional<message_failure> failure_;
  message_counters counters_;
};

template <class Done>
bool message_core::wait(deadline until, Done done) {
  constexpr std::uint32_t polls_per_look_at_the_clock = 64;
  for (std::uint32_t polls = 0; !done();) {
    const bool idle = progress() == 0;
    if (has_ended() || (++polls % polls_per_look_at_the_clock == 0 && until.expired()))
      return done();
    if (idle) relax();
  }
  return true;
}

}  // namespace verbena::inline VERBENA_ABI::detail
