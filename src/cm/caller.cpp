// SPDX-License-Identifier: MIT
#include "verbena/cm/caller.hpp"

#include <cerrno>
#include <utility>

#include "src/cm/session_core.hpp"

namespace verbena::inline VERBENA_ABI::cm {

caller::caller(std::unique_ptr<detail::session_core> core, connector way) noexcept
    : session_side(std::move(core)), connector_(std::move(way)) {}

result<caller> caller::resolve(const bringup::address& to, const session_options& options,
                               deadline until, const connector_options& how) {
  VERBENA_TRY(auto way, connector::resolve(to, until, how));
  VERBENA_TRY(auto core, detail::session_core::create(way, detail::role::asks, options));
  return caller(std::move(core), std::move(way));
}

result<session> caller::connect(std::span<const std::byte> private_data, deadline until) {
  VERBENA_TRY(auto link,
              connector_.connect(core().take_prepared(), {.private_data = private_data}, until));
  VERBENA_TRY_VOID(core().begin(std::move(link), until));
  return session(take_core());
}

}  // namespace verbena::inline VERBENA_ABI::cm
