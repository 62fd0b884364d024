// SPDX-License-Identifier: MIT
// The thread of a store: accepts clients, collects the parts of exchanges, and answers.
#pragma once

#include <poll.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/net/store_group.hpp"
#include "src/net/store_message.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/function_ref.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/net/store.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// A connected client. Must not be moved while an operation of its stream is in progress.
struct store_session {
  store_session(bringup::stream with, const bringup::listener_options& limits) noexcept
      : stream(std::move(with)),
        until(deadline::after(limits.greeting_timeout)),
        replaceable_from(deadline::after(limits.min_greeting_time)) {}
  store_session(const store_session&) = delete;
  store_session& operator=(const store_session&) = delete;

  /// Returns the events of poll(2) that the store waits for.
  [[nodiscard]] short events() const noexcept;
  /// Returns the number of bytes of messages that the client has not read.
  [[nodiscard]] std::size_t unread_bytes() const noexcept {
    return (sending ? bytes_in_sending : 0) + (next_answer ? next_answer->size() : 0);
  }

  /// Returns true until the store has received the membership of the client and, if the store has a
  /// secret, its proof.
  [[nodiscard]] bool is_silent() const noexcept { return group == nullptr && !sending; }

  bringup::stream stream;
  deadline until;                        // deadline of the hello; then never
  deadline replaceable_from;             // afterwards, a silent client may be replaced
  std::optional<steps<blob>> receiving;  // a message is being received
  std::optional<steps<void>> sending;    // not at the same time
  std::size_t bytes_in_sending = 0;
  deadline read_by = deadline::never();  // of `sending`: the client counts as slow afterwards
  std::optional<blob> next_answer;       // sent after the current send or receive
  short ready = 0;                       // events of the last poll(2)
  /// The hello that waits for a proof, and the nonce of the store.
  std::optional<std::pair<store_hello, nonce>> unproved;
  std::uint64_t informed = 0;  // number of changes that the client was informed about
  store_group* group = nullptr;
  std::uint32_t rank = 0;
  std::uint32_t number = 0;   // number of the last exchange or agreement
  bool is_exhausted = false;  // an allocation for it has failed; it is closed
};

/// Logs why a client is closed, and sends it the reason with the remedy. If a client has not read
/// earlier messages, the reason does not arrive.
void note_end(bringup::stream& client, std::string_view why);
/// Does the same for a client for which an allocation has failed.
void note_exhausted(store_session& client) noexcept;
/// Logs that a client has closed its connection.
void note_departure(store_session& client);
/// Does the same as note_end() for a message that the protocol does not permit.
void note_violation(bringup::stream& client, std::string_view why);

/// If an allocation fails on the thread, the client whose request or answer needs it is closed. The
/// other clients are informed of its departure, and later of what could not be sent at once.
/// Threads: one thread at a time; run() executes on its own thread.
class store_server {
 public:
  store_server(bringup::listener listener, unique_fd stop, const store_options& options);
  store_server(const store_server&) = delete;
  store_server& operator=(const store_server&) = delete;
  /// Stops the thread. Waits at most 2 s for answers in progress.
  ~store_server();

  [[nodiscard]] result<void> start();
  [[nodiscard]] const bringup::address& local_address() const noexcept { return local_; }
  [[nodiscard]] store_statistics statistics() const;

 private:
  using session_iterator = std::list<store_session>::iterator;

  void run();
  void wait();
  [[nodiscard]] deadline next_deadline() const noexcept;
  void accept();
  /// Returns a deadline that has passed if a new connection can be accepted. Otherwise, returns the
  /// time when a silent client may be replaced. New connections wait in the backlog until then.
  [[nodiscard]] deadline next_place() const noexcept;
  /// Closes the oldest silent clients beyond listener_options::max_greeting.
  void drop_silent();
  /// Sends the reason to a client that has not sent its membership in time.
  void drop_late(store_session& client);
  /// Closes clients that do not read while the unread messages exceed their limit.
  void drop_unread();
  /// Continues the operation of a client. Returns false if the client must be closed.
  [[nodiscard]] bool advance(store_session& of);
  [[nodiscard]] bool take(store_session& from, const blob& message);
  void greet(store_session& from, store_hello hello);
  void challenge(store_session& from, store_hello hello);
  void check_proof(store_session& from, const store_proof& proof);
  void admit(store_session& from, const store_hello& hello);
  void refuse(store_session& from, const store_failed& why);
  /// Returns the group that a client can enter, or nullptr. Ends a group that has failed while it
  /// formed, if the rank of the client has left it or is still connected, or if the sizes differ.
  [[nodiscard]] store_group* find_group(const store_hello& of);
  /// Handles a request about values. Returns false for other requests, and for requests that are
  /// not permitted.
  [[nodiscard]] bool use_values(store_session& from, store_request& request);
  void deliver(store_group& in, const published_values::due_replies& due) noexcept;
  void contribute(store_session& from, store_exchange exchange);
  void complete(store_group& of);
  void agree(store_session& from, store_agreement wanted);
  /// Completes the agreement of the members if it waits for no rank.
  void try_conclude(store_group& of);
  void conclude(store_group& of);
  /// Frees the name of a group whose last member has left, and fails the agreements of the ranks in
  /// rejoin(). Their processes may be stopped and stay connected.
  void end_group(store_group& of);
  void fail_agreement(store_group& of, const store_failed& why);
  /// Handles the deadlines of agreements that have passed.
  void expire_agreements(store_group& of);
  void expire_agreement(store_group& of, std::uint32_t rank);
  void expel(store_group& of, std::uint32_t rank);
  void fail(store_group& of, store_failed why) noexcept;
  void expire() noexcept;
  using part_list = std::vector<std::span<const std::byte>>;
  /// Sends a message to each of `ranks`, with the parts of all of `ranks` for the receiver.
  /// `parts_of` returns the parts of a rank. `encode` makes a message, and `bytes_of` returns its
  /// length. If every rank has one part for all ranks, encodes the message only once. If a message
  /// would be too large, sends nothing and returns its receiver.
  template <class PartsOf, class BytesOf, class Encode>
  [[nodiscard]] std::optional<std::uint32_t> answer_all(store_group& of,
                                                        std::span<const std::uint32_t> ranks,
                                                        PartsOf&& parts_of, BytesOf&& bytes_of,
                                                        Encode&& encode);
  void answer(store_session& to, blob message);
  /// Answers with the result of `encode`. If an allocation fails, the client is closed, because it
  /// would wait for the answer.
  void answer_or_close(store_session& to, function_ref<blob()> encode) noexcept;
  /// Answers the last exchange or agreement of a client, or closes the client.
  void answer_request(store_session& to, std::span<const std::byte> message) noexcept;
  void answer_request(store_session& to, const store_failed& why) noexcept;
  void send(store_session& to, const blob& message);
  /// Sends the next answer or news, if there is one. Returns true if a message was sent.
  [[nodiscard]] bool send_next(store_session& to);
  void close(session_iterator client) noexcept;
  /// Removes a client from its group, and informs the other ranks by settle().
  void leave(store_session& client) noexcept;
  /// Completes what the departure of a client has changed for the others of its group. If an
  /// allocation fails, a later call continues.
  void settle(store_group& of) noexcept;
  /// Calls `what`. If an allocation fails, returns false. The next wait() then pauses, so that the
  /// thread does not repeat the call without a pause.
  [[nodiscard]] bool attempt(function_ref<void()> what) noexcept;
  template <class Change>
  void count(Change&& change) {
    const std::lock_guard lock(mutex_);
    change(statistics_);
  }

  bringup::listener listener_;
  bringup::address local_;
  unique_fd stop_;
  store_options options_;
  std::optional<steps<bringup::stream>> accepting_;
  std::list<store_session> sessions_;
  std::vector<pollfd> events_;           // of wait(), with room for all sessions
  bool has_failed_to_allocate_ = false;  // since the last wait()
  std::size_t bytes_of_values_ = 0;      // bytes of the values of all groups
  std::list<store_group> groups_;
  std::uint32_t admitted_ = 0;                // number of clients that have a group
  bool has_new_session_ = false;              // since the last wait()
  deadline accepts_from_ = deadline::at({});  // next_place() of the last accept()
  std::atomic<bool> stopping_ = false;
  pthread_t thread_{};
  bool is_started_ = false;
  mutable std::mutex mutex_;
  store_statistics statistics_;  // guarded by mutex_
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
