// SPDX-License-Identifier: MIT
// Random requests of one queue pair to its peer, and the oracle that judges their completions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "softdev/wire/packet.hpp"
#include "tests/unit/softdev/wire/simulation/end.hpp"
#include "tests/unit/softdev/wire/simulation/random_source.hpp"

namespace verbena::softdev::wire::simulation {

/// The promises that the oracle verifies.
enum class promise : std::uint8_t {
  reliable,       ///< RC: every request completes with success
  refused,        ///< RC without losses: all requests before one that is refused succeed
  ends,           ///< RC: requests may also end with retry_exceeded or flushed
  once_in_order,  ///< UC without reordering and duplication: messages may be missing
  bytes,          ///< UC: a message that is received has its bytes
};

/// Each request uses memory of its own, so that its effect can be verified at any later time.
///
/// Threads: one thread at a time.
class traffic {
 public:
  /// `from` and `to` are connected.
  traffic(end& from, end& to, std::uint32_t mtu, random_source& random, promise promised);

  /// Has the responder refuse a request with a wrong key, or all from some time or response to a
  /// READ on because the memory that they access is deregistered.
  void refuse(random_source& random);
  /// Sees the packets that the host of the responder sends.
  void note_answer(const packet& what) noexcept;
  /// Posts what is due. Returns when it has to be called next.
  time_ns post();
  /// Polls and judges completions.
  void poll();
  /// True if all completions came.
  [[nodiscard]] bool finished() const noexcept;
  /// Returns the first violation, or an empty text.
  [[nodiscard]] const std::string& violation() const noexcept { return violation_; }
  /// Counts the completions, for a run that makes no progress.
  [[nodiscard]] std::string missing() const;
  /// To be called at the end.
  void judge_end();
  [[nodiscard]] std::size_t requests() const noexcept { return plan_.size(); }
  /// The number of requests that completed as refused.
  [[nodiscard]] std::size_t refused() const noexcept { return refused_; }

 private:
  static constexpr std::uint32_t most_planned = 40;

  struct planned {
    send_request request;
    std::uint32_t length = 0;
    std::size_t offset = 0;  ///< in all memories
    std::uint64_t word = 0;  ///< of an atomic operation: the value before it
    time_ns post_at = 0;
    bool verified = false;
  };
  /// A SEND or a WRITE with immediate data, and its receive request.
  struct arrival {
    std::size_t request = 0;
    time_ns post_at = 0;
  };

  void plan(std::uint32_t mtu, random_source& random);
  [[nodiscard]] std::uint64_t pattern_of(std::size_t index) const noexcept;
  void post_request(std::size_t index);
  [[nodiscard]] bool accesses_target(std::size_t index) const noexcept;
  [[nodiscard]] bool may_be_refused(std::size_t index) const noexcept;
  [[nodiscard]] bool may_fail_first(completion_status status, std::size_t index) const noexcept;
  void judge_sent(const completion& what);
  void judge_received(const completion& what);
  void judge_unreliable(const completion& what, std::size_t position);
  [[nodiscard]] bool is_reliable() const noexcept { return promised_ <= promise::ends; }
  [[nodiscard]] sge receive_slice(std::size_t position) noexcept;
  void verify_effect(std::size_t index);
  void verify_writes_before(std::size_t index);
  void violate(const std::string& what, std::size_t index);

  end& from_;
  end& to_;
  const promise promised_;
  const std::uint32_t longest_unreliable_;
  const std::uint64_t seed_;
  std::vector<planned> plan_;
  std::vector<arrival> arrivals_;
  std::size_t bytes_ = 0;
  std::uint64_t last_word_ = 0;
  std::size_t posted_ = 0;
  std::size_t completed_ = 0;  ///< requests that are known to be done
  std::size_t receives_posted_ = 0;
  std::size_t receives_completed_ = 0;
  std::size_t next_received_ = 0;         ///< over UC: the first request that may be received next
  std::size_t wrong_key_ = most_planned;  ///< the request that has it
  time_ns deregister_at_ = never;
  std::uint32_t responses_left_ = 0;  ///< until the memory is deregistered; 0: another cause
  bool deregistered_ = false;
  std::size_t refused_ = 0;
  bool failed_ = false;
  bool receiver_failed_ = false;
  std::string violation_;
  memory source_;     ///< of `from`: payloads, and sinks of READs
  memory target_;     ///< of `to`: targets of WRITEs, sources of READs
  memory receives_;   ///< of `to`
  memory word_;       ///< of `to`: target of atomic operations
  memory originals_;  ///< of `from`: results of atomic operations
};

}  // namespace verbena::softdev::wire::simulation
