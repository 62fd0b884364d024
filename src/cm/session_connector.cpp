// SPDX-License-Identifier: MIT
#include "verbena/cm/session_connector.hpp"

#include <cerrno>
#include <utility>

#include "src/cm/session_core.hpp"

namespace verbena::inline VERBENA_ABI::cm {

session_connector::session_connector(detail::session_core_owner core, connector way) noexcept
    : session_base(std::move(core)), connector_(std::move(way)) {}

result<session_connector> session_connector::resolve(const bringup::address& to,
                                                     const session_options& options, deadline until,
                                                     const connector_options& how) {
  VERBENA_TRY(auto way, connector::resolve(to, until, how));
  VERBENA_TRY(auto core, detail::session_core::create(way, detail::role::active, options));
  return session_connector(std::move(core), std::move(way));
}

result<session> session_connector::connect(std::span<const std::byte> private_data,
                                           deadline until) {
  VERBENA_TRY(auto link,
              connector_.connect(core().take_prepared(), {.private_data = private_data}, until));
  VERBENA_TRY_VOID(core().begin(std::move(link), until));
  return session(take_core());
}

}  // namespace verbena::inline VERBENA_ABI::cm
