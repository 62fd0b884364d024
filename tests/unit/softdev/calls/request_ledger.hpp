// SPDX-License-Identifier: MIT
// The requests that were posted and have no completion yet: the oracle of random calls.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace verbena::softdev::testing {

/// Where requests are posted: a queue pair or a shared receive queue.
using owner_id = std::uint32_t;

/// Knows which completions are owed. Threads: thread-safe.
class request_ledger {
 public:
  enum class kind : std::uint8_t { signaled_send, unsignaled_send, receive };

  /// Begins an owner. Requests of one with `in_order` complete in the order of their posting, for
  /// an observer that alone polls its completion queues.
  owner_id open(std::uint32_t qp_num, bool in_order);
  /// Ends an owner: its remaining completions may come, or not.
  void close(owner_id owner);
  /// The requests so far may complete, or not: the queue pair was reset.
  void forgive(owner_id owner);

  /// Notes a request before it is posted. Returns its wr_id.
  std::uint64_t post(owner_id owner, kind what);
  /// The request was refused.
  void take_back(std::uint64_t wr_id);
  /// Returns a complaint, or nullopt if the completion is one that may come.
  std::optional<std::string> complete(const ibv_wc& completion);

  /// Returns how many requests of the owner must complete.
  [[nodiscard]] std::size_t owed(owner_id owner) const;
  struct totals {
    std::uint64_t completed = 0;
    std::uint64_t succeeded = 0;
  };
  [[nodiscard]] totals count() const;

 private:
  struct request {
    kind what = kind::receive;
    bool must_complete = false;
  };
  struct owner_state {
    std::uint32_t qp_num = 0;  ///< 0: a shared receive queue
    bool in_order = false;
    bool closed = false;
    std::uint32_t last = 0;
    std::map<std::uint32_t, request> open;
    std::uint32_t last_send = 0;  ///< that has completed
    std::uint32_t last_receive = 0;
  };

  static std::optional<std::string> check(owner_state& owner, std::uint32_t number,
                                          const request& what, const ibv_wc& completion);

  mutable std::mutex mutex_;
  owner_id last_owner_ = 0;
  totals totals_;
  std::unordered_map<owner_id, owner_state> owners_;
  std::deque<owner_id> closed_;
};

}  // namespace verbena::softdev::testing
