// SPDX-License-Identifier: MIT
// Random requests of one queue pair to its peer, and the oracle that checks their completions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "softdev/wire/packet.hpp"
#include "tests/unit/softdev/random_source.hpp"
#include "tests/unit/softdev/wire/simulation/end.hpp"

namespace verbena::softdev::wire::simulation {

/// The guarantees that the oracle checks.
enum class promise : std::uint8_t {
  reliable,       ///< RC: every request succeeds
  refused,        ///< RC without losses: all requests before a refused one succeed
  ends,           ///< RC: requests may also end with retry_exceeded or flushed
  once_in_order,  ///< UC without reordering and duplication: messages can be missing
  bytes,          ///< UC: a received message has the correct bytes
};

/// Each request uses separate memory, so that its effect can be checked at any later time.
///
/// Threads: one thread at a time.
class traffic {
 public:
  /// Precondition: `from` and `to` are connected.
  traffic(end& from, end& to, std::uint32_t mtu, random_source& random, promise promised);

  /// Has the responder refuse requests: one request because of a wrong rkey, or all requests from a
  /// certain time or READ response on, because their memory is deregistered.
  void refuse(random_source& random);
  /// Observes the packets that the responder's host sends.
  void note_answer(const packet& what) noexcept;
  /// Posts the requests that are due. Returns when the next one is due.
  time_ns post();
  /// Polls and checks completions.
  void poll();
  /// Returns true if all completions have been polled.
  [[nodiscard]] bool finished() const noexcept;
  /// Returns the first violation, or an empty string.
  [[nodiscard]] const std::string& violation() const noexcept { return violation_; }
  /// Returns the numbers of completions as text, for a run without progress.
  [[nodiscard]] std::string missing() const;
  /// Checks the results. Call it at the end.
  void judge_end();
  [[nodiscard]] std::size_t requests() const noexcept { return plan_.size(); }
  /// Returns the number of refused requests.
  [[nodiscard]] std::size_t refused() const noexcept { return refused_; }

 private:
  static constexpr std::uint32_t most_planned = 40;

  struct planned {
    send_request request;
    std::uint32_t length = 0;
    std::size_t offset = 0;  ///< in all memories
    std::uint64_t word = 0;  ///< of an atomic operation: the original value
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
  std::size_t completed_ = 0;  ///< requests that are known to be complete
  std::size_t receives_posted_ = 0;
  std::size_t receives_completed_ = 0;
  std::size_t next_received_ = 0;         ///< over UC: the next request that can be received
  std::size_t wrong_key_ = most_planned;  ///< the request with the wrong key
  time_ns deregister_at_ = never;
  std::uint32_t responses_left_ = 0;  ///< until memory is deregistered; 0: another cause
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
