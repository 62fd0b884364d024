// SPDX-License-Identifier: MIT
// The thread of a store: accepts clients, collects the parts of exchanges, and answers.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/net/store_group.hpp"
#include "src/net/store_message.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/net/store.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// A client. While an operation of its stream is in progress, it must not be moved.
struct store_session {
  explicit store_session(bringup::stream with, deadline hello) noexcept
      : stream(std::move(with)), until(hello) {}
  store_session(const store_session&) = delete;
  store_session& operator=(const store_session&) = delete;

  /// Returns the events of its socket that the store waits for.
  [[nodiscard]] short events() const noexcept;

  bringup::stream stream;
  deadline until;                        // for the hello; then never
  std::optional<steps<blob>> receiving;  // a message has begun
  std::optional<steps<void>> sending;    // not at the same time
  std::optional<blob> next_answer;       // behind the message that is being sent or received
  short ready = 0;                       // events of the last wait
  /// The hello that waits for a proof, and the nonce of the store.
  std::optional<std::pair<store_hello, nonce>> unproved;
  std::uint64_t informed = 0;  // of this number of changes of its group
  store_group* group = nullptr;
  std::uint32_t rank = 0;
};

/// Threads: the functions of this class on one thread at a time; run() is on its own thread.
class store_server {
 public:
  store_server(bringup::listener listener, unique_fd stop, const store_options& options);
  store_server(const store_server&) = delete;
  store_server& operator=(const store_server&) = delete;
  /// Sends the answers that have begun, for at most 2 s, and ends the thread.
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
  void drop_silent();
  /// Continues the operation of a client; returns false if the client must be closed.
  [[nodiscard]] bool advance(store_session& of);
  [[nodiscard]] bool take(store_session& from, const blob& message);
  void greet(store_session& from, store_hello hello);
  void challenge(store_session& from, store_hello hello);
  void check_proof(store_session& from, const store_proof& proof);
  void admit(store_session& from, const store_hello& hello);
  void refuse(store_session& from, const store_failed& why);
  /// Handles a request about values. Returns false if the request is about something else, or not
  /// permitted.
  [[nodiscard]] bool use_values(store_session& from, store_request& request);
  void deliver(store_group& in, const published_values::due_replies& due);
  void contribute(store_session& from, store_exchange exchange);
  void complete(store_group& of);
  void agree(store_session& from, store_agreement wanted);
  /// Ends the agreement of the members if all have called it.
  void try_conclude(store_group& of);
  void conclude(store_group& of);
  void fail_agreement(store_group& of, const store_failed& why);
  /// Handles the deadlines of the agreement that have passed.
  void expire_agreements(store_group& of);
  void expire_agreement(store_group& of, std::uint32_t rank);
  void expel(store_group& of, std::uint32_t rank);
  void fail(store_group& of, store_failed why);
  void expire();
  using part_list = std::vector<std::span<const std::byte>>;
  /// Sends each of the ranks the parts of all of them for it. `parts_of` returns the parts of a
  /// rank; `encode` makes a message, and `bytes_of` returns its length. If all parts are for all
  /// ranks, there is one message. Returns the rank whose message would be too large; then sends
  /// none.
  template <class PartsOf, class BytesOf, class Encode>
  [[nodiscard]] std::optional<std::uint32_t> answer_all(store_group& of,
                                                        std::span<const std::uint32_t> ranks,
                                                        PartsOf&& parts_of, BytesOf&& bytes_of,
                                                        Encode&& encode);
  void answer(store_session& to, blob message);
  void send(store_session& to, const blob& message);
  /// Sends the next answer or report, if there is one. Returns whether it did.
  [[nodiscard]] bool send_next(store_session& to);
  void close(session_iterator client);
  void leave(store_session& client);
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
  std::size_t bytes_of_values_ = 0;  // of all groups
  std::map<std::string, store_group> groups_;
  std::uint32_t admitted_ = 0;    // clients that have a group
  bool has_new_session_ = false;  // since the last wait
  std::atomic<bool> stopping_ = false;
  pthread_t thread_{};
  bool is_started_ = false;
  mutable std::mutex mutex_;
  store_statistics statistics_;  // guarded by mutex_
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
