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
#include <string>
#include <utility>
#include <vector>

#include "src/net/store_message.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/net/store.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

struct store_group;

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
  std::optional<blob> next_answer;       // behind the message that is being sent
  /// The hello that waits for a proof, and the nonce of the store.
  std::optional<std::pair<store_hello, nonce>> unproved;
  std::size_t told = 0;  // of the ranks that have left its group
  store_group* group = nullptr;
  std::uint32_t rank = 0;
};

/// The ranks of a group, and the exchange in progress.
struct store_group {
  store_group(std::string called, std::uint32_t size) : name(std::move(called)), ranks(size) {}

  struct rank_state {
    store_session* session = nullptr;
    bool gone = false;
    std::optional<blobs> parts;  // of the exchange
  };

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(ranks.size());
  }
  [[nodiscard]] bool is_exchanging() const noexcept { return arrived != 0; }
  /// Returns the ranks for which `holds` is true.
  template <class Condition>
  [[nodiscard]] std::vector<std::uint32_t> ranks_that(Condition&& holds) const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t each = 0; each < size(); ++each)
      if (holds(ranks[each])) found.push_back(each);
    return found;
  }

  std::string name;
  std::vector<rank_state> ranks;
  std::vector<std::uint32_t> left;  // in the order in which the ranks left
  std::uint32_t connected = 0;
  std::string exchange;
  std::uint32_t arrived = 0;
  deadline until = deadline::never();  // the earliest of the ranks that have arrived
  std::uint32_t hurried = 0;           // the rank of that deadline
  std::optional<store_failed> failure;
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
  void contribute(store_session& from, store_exchange exchange);
  void complete(store_group& of);
  void fail(store_group& of, store_failed why);
  void expire();
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
  std::map<std::string, store_group> groups_;
  std::atomic<bool> stopping_ = false;
  pthread_t thread_{};
  bool is_started_ = false;
  mutable std::mutex mutex_;
  store_statistics statistics_;  // guarded by mutex_
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
