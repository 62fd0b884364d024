// SPDX-License-Identifier: MIT
#include "verbena/cm/session_listener.hpp"

#include <utility>

#include "src/cm/session_core.hpp"

namespace verbena::inline VERBENA_ABI::cm {

session_request::session_request(detail::session_core_owner core,
                                 connection_request request) noexcept
    : session_base(std::move(core)), request_(std::move(request)) {}

std::optional<socket_address> session_request::peer_address() const {
  return request_.peer_address();
}

result<session> session_request::accept(std::span<const std::byte> private_data,
                                        deadline until) && {
  auto made = take_core();
  VERBENA_ASSERT(made.get() != nullptr,
                 "accept() of a session_request that was answered or moved from");
  VERBENA_TRY(auto link, std::move(request_).accept(made->take_prepared(),
                                                    {.private_data = private_data}, until));
  VERBENA_TRY_VOID(made->begin(std::move(link), until));
  return session(std::move(made));
}

result<void> session_request::reject(std::span<const std::byte> private_data) && {
  return std::move(request_).reject(private_data);
}

result<session_listener> session_listener::open(const bringup::address& at,
                                                const listener_options& options) {
  VERBENA_TRY(auto made, listener::open(at, options));
  return session_listener(std::move(made));
}

result<session_request> session_listener::next_request(const session_options& options,
                                                       deadline until) {
  VERBENA_TRY(auto request, listener_.accept(until));
  VERBENA_TRY(auto core, detail::session_core::create(request, detail::role::passive, options));
  return session_request(std::move(core), std::move(request));
}

}  // namespace verbena::inline VERBENA_ABI::cm
