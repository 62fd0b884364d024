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

/// The active side of a session before it is connected: creates buffers and posts receives.
/// Threads: one thread at a time.
class [[nodiscard]] session_connector : public session_base {
 public:
  /// Resolves `to` and the device that reaches it, and creates the queues. Blocks until `until`.
  /// Errors: those of connector::resolve(); `invalid_argument` for a protection domain of another
  /// device; those of creating the queues.
  [[nodiscard]] static result<session_connector> resolve(const bringup::address& to,
                                                         const session_options& options,
                                                         deadline until,
                                                         const connector_options& how = {});

  /// Requests the connection, with at most 56 bytes of private data. Blocks until `until`. The
  /// connector must not be used again, not even after an error; its buffers remain valid.
  /// Errors: those of connector::connect().
  [[nodiscard]] result<session> connect(std::span<const std::byte> private_data, deadline until);
  /// Returns the rejection of the peer after connect() failed; `nullopt` if the peer did not
  /// reject.
  [[nodiscard]] const std::optional<cm::rejection>& rejection() const noexcept {
    return connector_.rejection();
  }

 private:
  session_connector(detail::session_core_owner core, connector way) noexcept;

  connector connector_;
};

}  // namespace verbena::inline VERBENA_ABI::cm
