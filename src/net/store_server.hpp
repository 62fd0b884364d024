// SPDX-License-Identifier: MIT
// The thread of a store: accepts clients, collects the parts of exchanges, and answers.
#pragma once

#include <pthread.h>

#include <algorithm>
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

#include "src/net/store_message.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/net/store.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

struct store_group;

/// Returns whether two agreements belong to one step of one renewal.
[[nodiscard]] inline bool is_same_step(const store_agreement& a, const store_agreement& b) {
  return a.renewal == b.renewal && a.name == b.name;
}

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

/// The ranks of a group, and the exchange or agreement in progress. The members take part in
/// exchanges: first all ranks, then those of the last agreement.
///
/// The work for a message of a client grows at most linearly with the number of ranks.
struct store_group {
  store_group(std::string called, std::uint32_t size)
      : name(std::move(called)), ranks(size), members(size) {}
  store_group(const store_group&) = delete;
  store_group& operator=(const store_group&) = delete;

  struct rank_state {
    store_session* session = nullptr;
    bool is_member = true;
    bool gone = false;           // its process has left
    bool waits = false;          // its new process, which has the session, is not a member yet
    std::uint64_t change = 0;    // the number of the last change of its session
    std::optional<blobs> parts;  // of the exchange
    std::optional<store_agreement> agreement;
    deadline until = deadline::never();  // of the agreement
    bool is_counted = false;             // the agreement, in `agreeing` and `awaited`
    std::uint32_t awaited = 0;           // by the members that have called an agreement

    [[nodiscard]] bool is_present() const noexcept {
      return session != nullptr && is_member && !waits;
    }
  };

  struct session_change {
    std::uint64_t number;
    std::uint32_t rank;
  };

  /// Returns whether an agreement waits for a rank.
  [[nodiscard]] static bool is_missing(const rank_state& each, const store_agreement& with) {
    const bool takes_part = each.agreement && is_same_step(*each.agreement, with);
    return !takes_part && (each.awaited != 0 || each.is_present());
  }

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
  /// Returns the members that are connected and have called an agreement.
  [[nodiscard]] std::vector<std::uint32_t> agreeing_members() const {
    return ranks_that([](const auto& each) { return each.is_counted; });
  }
  /// Returns the agreement of the members; nullptr if no member has called one.
  [[nodiscard]] const store_agreement* current() const;
  /// Returns the connected members that do not take part in the agreement yet, and the ranks that
  /// it awaits in vain. Precondition: a member takes part.
  [[nodiscard]] std::vector<std::uint32_t> not_agreeing() const {
    return ranks_that([with = current()](const auto& each) { return is_missing(each, *with); });
  }
  /// Returns whether a member takes part in an agreement, and not_agreeing() is empty.
  [[nodiscard]] bool is_agreed() const;
  void begin_agreement(std::uint32_t rank, store_agreement wanted);
  void end_agreement(std::uint32_t rank);
  [[nodiscard]] std::vector<std::uint32_t> departed_members() const {
    return ranks_that([](const auto& each) { return each.is_member && each.gone; });
  }
  /// Gives the next renewal its number, which is not 0.
  void begin_renewal() noexcept { renewal = std::max(renewal + 1, std::uint32_t{1}); }
  /// Records that the session of a rank has changed.
  void note_change(std::uint32_t rank);
  /// Returns the ranks of the changes after a number of them, in their order, without members that
  /// are connected.
  [[nodiscard]] std::vector<std::uint32_t> changed_since(std::uint64_t informed) const;

  std::string name;
  std::vector<rank_state> ranks;
  std::uint32_t members;
  std::uint64_t changes = 0;        // of sessions
  std::vector<session_change> log;  // the last change of each rank, and at most as many others
  std::uint32_t connected = 0;
  std::uint32_t agreeing = 0;              // members that have called an agreement
  std::uint32_t renewal = 0;               // the number of the last renewal that has begun
  deadline first_end = deadline::never();  // not after the deadline of any agreement
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
  void agree(store_session& from, store_agreement wanted);
  /// Ends the agreement of the members if all have called it.
  void try_conclude(store_group& of);
  void conclude(store_group& of);
  void fail_agreement(store_group& of, const store_failed& why);
  /// Handles the deadlines of the agreement that have passed.
  void expire_agreements(store_group& of);
  void expire_agreement(store_group& of, std::uint32_t rank);
  [[nodiscard]] static bool can_expel(const store_group& of,
                                      std::span<const std::uint32_t> missing);
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
  std::map<std::string, store_group> groups_;
  std::uint32_t admitted_ = 0;  // clients that have a group
  std::atomic<bool> stopping_ = false;
  pthread_t thread_{};
  bool is_started_ = false;
  mutable std::mutex mutex_;
  store_statistics statistics_;  // guarded by mutex_
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
