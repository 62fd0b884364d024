// SPDX-License-Identifier: MIT
// Messages of other hosts that belong to no exchange: the process to which they go, and the answers
// without an exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "softdev/cm/address.hpp"
#include "softdev/cm/mad.hpp"
#include "softdev/cm/mad_carrier.hpp"

namespace verbena::softdev::cm {

/// The bits of a communication ID below the queue pair number that identifies its process.
inline constexpr unsigned low_bits_of_communication_id = 8;

/// Returns the slot of the process that has chosen this communication ID.
[[nodiscard]] std::uint32_t slot_of_communication_id(std::uint32_t id) noexcept;

/// Passes the request of another host to the process of this user that listens, in one frame. Does
/// not wait for that process. Returns 0; ECONNREFUSED if no process listens; EAGAIN if that process
/// has too many pending requests; the errno of another failure.
[[nodiscard]] int pass_to_listener(const address& own, const address& peer,
                                   const mad& request) noexcept;
/// Remembers the last requests that were passed to listeners of this host. A peer that gives up a
/// request before an answer sends a rejection that names only its own communication ID, so no
/// process is its receiver. Threads: one thread at a time.
class passed_requests {
 public:
  /// Calls pass_to_listener().
  [[nodiscard]] int pass(const address& own, const address& peer, const mad& request) noexcept;
  /// Passes a rejection without a receiver to the process that has the request, if any. If that
  /// process has too many pending requests, the request ends at its deadline.
  void give_up(const address& peer, const mad& rejection) noexcept;

 private:
  static constexpr std::size_t most = 256;
  struct passed_request {
    address peer;
    std::uint32_t communication_id = 0;
    port_space space = port_space::tcp;
    address listener;
  };

  [[nodiscard]] passed_request* find(const address& peer, std::uint32_t communication_id) noexcept;

  std::vector<passed_request> last_;
  std::size_t next_ = 0;  ///< the oldest one, once there are `most`
};

/// Rejects the request of another host; `reason` is a reject_reason.
void reject_request(mad_carrier& by, const address& own, const address& peer, const mad& request,
                    std::uint32_t reason) noexcept;
/// Returns the answer to a message with an unknown communication ID; `nullopt` if the message needs
/// no answer.
[[nodiscard]] std::optional<mad> answer_to_unknown(const mad& message) noexcept;

}  // namespace verbena::softdev::cm
