// SPDX-License-Identifier: MIT
// The acknowledgements of successful requests of peers. An acknowledgement is not sent at once, but
// before an answer to another queue pair, before the next request of this process, or at the end of
// a batch: it covers all earlier requests of its queue pair. It precedes anything that the program
// sends after it has seen the completion.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "softdev/core/biased_lock.hpp"
#include "softdev/core/message.hpp"
#include "softdev/fabric/records.hpp"
#include "softdev/peers/peer.hpp"

namespace verbena::softdev {

/// The most bytes of the ring that the answer to one request and a due acknowledgement need.
inline constexpr std::uint32_t longest_answers =
    2 * (sizeof(records::answer_header) + sizeof(records::failure_numbers)) + 64;

/// Sends the answer to the request `what`. Returns false if the ring has no room. Threads:
/// thread-safe.
[[nodiscard]] bool send_answer(peer& to, const message& what, const response& outcome) noexcept;

/// Threads: thread-safe. Does not allocate.
class acknowledgements {
 public:
  /// Adds the acknowledgement of the request `what` of a queue pair in the process `from`.
  void add(const std::shared_ptr<peer>& from, const message& what) noexcept;
  /// Sends the acknowledgement that is due. Costs one load if none is due.
  void flush() noexcept {
    if (is_due_.load(std::memory_order_acquire)) flush_due();
  }
  /// Sends the acknowledgement that is due to `gone`, and drops the reference to that process.
  void forget(const std::shared_ptr<peer>& gone) noexcept;

  /// Acknowledgements that were lost because the ring had no room.
  [[nodiscard]] std::uint64_t lost() const noexcept {
    return lost_.load(std::memory_order_relaxed);
  }

 private:
  void flush_due() noexcept;
  void send() noexcept;
  void put_unannounced() noexcept;
  void send_to_paired(peer& to) noexcept;
  void count_lost(bool sent) noexcept;

  biased_lock lock_;  ///< taken before the lock of a peer's sends
  /// The process of the last acknowledgement. Kept after sending, to avoid reference counting.
  std::shared_ptr<peer> to_;
  records::fragment_header header_{};
  bool signaled_ = false;         ///< it covers a signaled request
  bool others_signaled_ = false;  ///< so does another one that is not announced yet
  std::atomic<bool> is_due_{false};
  std::atomic<std::uint64_t> lost_{0};
};

}  // namespace verbena::softdev
