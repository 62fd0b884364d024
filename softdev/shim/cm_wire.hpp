// SPDX-License-Identifier: MIT
// Messages between connection managers of different hosts, over the sockets of the device.
#pragma once

#include <mutex>
#include <optional>

#include "softdev/cm/mad_carrier.hpp"
#include "softdev/cm/mad_routing.hpp"
#include "softdev/host/host.hpp"
#include "softdev/wire/socket/management.hpp"

namespace verbena::softdev {

/// Passes messages to the connection manager of this process, and requests to the process of this
/// user that listens. Threads: thread-safe.
class cm_wire final : public cm::mad_carrier, public wire::management_observer {
 public:
  /// `home` outlives it.
  explicit cm_wire(host& home) noexcept : home_(home) {}
  [[nodiscard]] const host& home() const noexcept { return home_; }

  [[nodiscard]] cm::mad_identity identity() const noexcept override;
  [[nodiscard]] int open() override;
  [[nodiscard]] int find_source(const cm::address& to, cm::address& source) override;
  void send(const cm::address& own, const cm::address& peer,
            cm::mad_view message) noexcept override;

  [[nodiscard]] std::optional<std::uint32_t> slot_of(
      wire::management_view message) const noexcept override;
  [[nodiscard]] bool admit(const cm::address& own, const cm::address& peer,
                           const cm::mad& request) noexcept override;
  void message_arrived(const wire::management_addresses& ends,
                       wire::management_view message) noexcept override;

 private:
  [[nodiscard]] int pass(const cm::address& own, const cm::address& peer,
                         const cm::mad& request) noexcept;

  host& home_;
  std::mutex lock_;
  cm::passed_requests passed_;  ///< while this process has no connection manager
};

/// Returns the object of the host; the first call creates it. From then on it receives the
/// management messages of the device. Returns nullptr if the wire is off.
[[nodiscard]] cm_wire* cm_wire_of(host& home);

/// Returns whether an address belongs to another host that messages can reach.
[[nodiscard]] bool is_on_another_host(host& home, const cm::address& which) noexcept;

}  // namespace verbena::softdev
