// SPDX-License-Identifier: MIT
// The values that the ranks of a group have published at the store, and the ranks that wait for
// one.
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
/// The functions return the replies that have become due, at most one for each rank. A rank waits
/// for at most one value. The work of a function grows at most linearly with the number of ranks.
/// Threads: one thread at a time.
class published_values {
 public:
  struct due_reply {
    std::uint32_t to;
    store_reply reply;
  };
  using due_replies = std::vector<due_reply>;

  /// `bytes_of_all` counts the bytes of all groups. Both references outlive this object.
  published_values(std::uint32_t ranks, const store_options& limits, std::size_t& bytes_of_all)
      : ranks_(ranks), limits_(&limits), bytes_of_all_(&bytes_of_all) {}

  /// Sets or replaces a value, and ends the waiting for it.
  [[nodiscard]] due_replies publish(std::uint32_t by, store_publish what);
  [[nodiscard]] due_replies withdraw(std::uint32_t by, const store_withdraw& what);
  /// Finds a value, or begins to wait. Precondition: the rank that is asked exists.
  [[nodiscard]] due_replies find(std::uint32_t by, store_find what);

  /// Ends the waiting of a rank, without a reply.
  void stop_waiting(std::uint32_t rank) { waiting_.erase(rank); }
  /// Removes the values of a rank whose process has left, and ends the waiting for and of it.
  [[nodiscard]] due_replies remove(std::uint32_t rank);
  /// Ends the waiting of all ranks: `by` has begun an agreement.
  [[nodiscard]] due_replies interrupt(std::uint32_t by);
  /// Ends the waiting of ranks whose deadlines have passed.
  [[nodiscard]] due_replies expire();
  /// Returns the earliest deadline of a rank that waits.
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

  /// Ends the waiting for which `holds(waiting)` is true with a reply.
  template <class Condition>
  [[nodiscard]] due_replies end_waiting(const store_reply& with, Condition&& holds);

  std::vector<values_of_rank> ranks_;
  std::map<std::uint32_t, waiting_rank> waiting_;
  const store_options* limits_;
  std::size_t* bytes_of_all_;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
