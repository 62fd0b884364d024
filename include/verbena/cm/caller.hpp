// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/cm/connector.hpp"
#include "verbena/cm/session.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// A session that is not connected yet, of the side that asks: buffers can be made and receives
/// posted. Threads: one thread at a time.
class [[nodiscard]] caller : public detail::session_side {
 public:
  /// Finds `to` and the device that reaches it, and makes the queues. Blocks until `until`.
  /// Errors: those of connector::resolve(); `invalid_argument` for a protection domain of another
  /// device; those of making the queues.
  [[nodiscard]] static result<caller> resolve(const bringup::address& to,
                                              const session_options& options, deadline until,
                                              const connector_options& how = {});

  /// Asks the peer for the connection, with at most 56 bytes for its program. Blocks until
  /// `until`. Whatever happens, this caller has then done its work; its buffers remain.
  /// Errors: those of connector::connect().
  [[nodiscard]] result<session> connect(std::span<const std::byte> private_data, deadline until);
  /// After connect() failed: why the peer refused, and what it said; nothing if it did not.
  [[nodiscard]] const std::optional<cm::rejection>& rejection() const noexcept {
    return connector_.rejection();
  }

 private:
  caller(std::unique_ptr<detail::session_core> core, connector way) noexcept;

  connector connector_;
};

}  // namespace verbena::inline VERBENA_ABI::cm
