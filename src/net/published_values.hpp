// SPDX-License-Identifier: MIT
// The values that the ranks of a group have published at the store, and the pending find requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/net/store_message.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/net/store.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The values of the processes of one group. A value is removed when its process leaves.
///
/// The functions return the replies that have become due, at most one per rank. A rank has at most
/// one pending find request. The running time of a function is at most linear in the number of
/// ranks.
/// Threads: one thread at a time.
class published_values {
 public:
  struct due_reply {
    std::uint32_t to;
    store_reply reply;
  };
  using due_replies = std::vector<due_reply>;

  /// `bytes_of_all` counts the bytes of all groups. `limits` and `bytes_of_all` must outlive this
  /// object.
  published_values(std::uint32_t ranks, const store_options& limits, std::size_t& bytes_of_all)
      : ranks_(ranks), limits_(&limits), bytes_of_all_(&bytes_of_all) {}

  /// Sets or replaces a value, and answers the find requests for it.
  [[nodiscard]] due_replies publish(std::uint32_t by, store_publish what);
  [[nodiscard]] due_replies withdraw(std::uint32_t by, const store_withdraw& what);
  /// Returns the value, or adds a pending find request. Precondition: `what.rank` exists.
  [[nodiscard]] due_replies find(std::uint32_t by, store_find what);

  /// Removes the pending find request of a rank without a reply.
  void stop_waiting(std::uint32_t rank) { waiting_.erase(rank); }
  /// Removes the values and the find request of a rank whose process has left, and ends the find
  /// requests for its values. If an allocation fails, removes all but these find requests, and a
  /// later call ends them.
  [[nodiscard]] due_replies remove(std::uint32_t rank);
  /// Ends all find requests, because rank `by` has begun an agreement.
  [[nodiscard]] due_replies interrupt(std::uint32_t by);
  /// Ends the find requests whose deadlines have passed.
  [[nodiscard]] due_replies expire();
  /// Returns the earliest deadline of a find request.
  [[nodiscard]] deadline first_end() const noexcept;

 private:
  struct waiting_rank {
    store_find what;
    deadline until;
  };
  struct values_of_rank {
    std::map<std::string, blob, std::less<>> values;
    std::size_t bytes = 0;
  };

  /// Removes the find requests for which `holds(waiting)` is true. Adds a reply for each to `due`.
  /// If an allocation fails, removes none.
  template <class Condition>
  [[nodiscard]] due_replies end_waiting(const store_reply& with, Condition&& holds,
                                        due_replies due = {});

  std::vector<values_of_rank> ranks_;
  std::map<std::uint32_t, waiting_rank> waiting_;
  const store_options* limits_;
  std::size_t* bytes_of_all_;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
