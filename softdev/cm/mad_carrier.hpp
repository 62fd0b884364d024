// SPDX-License-Identifier: MIT
// The interface by which the connection manager reaches other hosts.
#pragma once

#include <cstdint>

#include "softdev/cm/address.hpp"
#include "softdev/cm/mad.hpp"

namespace verbena::softdev::cm {

/// Identifies this process among all that exchange messages.
struct mad_identity {
  std::uint32_t process_slot = 0;
  std::uint64_t guid = 0;  ///< of the device
};

/// Exchanges messages with connection managers of other hosts. Threads: thread-safe.
class mad_carrier {
 public:
  [[nodiscard]] virtual mad_identity identity() const noexcept = 0;
  /// Prepares for messages of other hosts. May block for two seconds. Returns 0, or an errno and
  /// logs the reason.
  [[nodiscard]] virtual int open() = 0;
  /// Prepares to reach a host or a group. `source` is the own address to use. If it has no family
  /// or is a wildcard, sets it to the own address of the route. May block for two seconds. Returns
  /// 0 or an errno: EHOSTUNREACH, ENETUNREACH, or EACCES if the setting does not permit the own
  /// address.
  [[nodiscard]] virtual int find_source(const address& host, address& source) = 0;
  /// Checks a request of another host. Returns true if it may be passed to a process. Otherwise it
  /// was rejected, because it is invalid, or dropped, because it is forged. Does not block.
  [[nodiscard]] virtual bool admit(const address& own, const address& peer,
                                   const mad& request) noexcept = 0;
  /// Sends a message to the connection manager of another host. The message can be lost. Does not
  /// block.
  virtual void send(const address& own, const address& peer, mad_view message) noexcept = 0;

 protected:
  ~mad_carrier() = default;
};

}  // namespace verbena::softdev::cm
