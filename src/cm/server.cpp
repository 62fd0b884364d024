// SPDX-License-Identifier: MIT
#include "verbena/cm/server.hpp"

#include <utility>

#include "src/cm/session_core.hpp"

namespace verbena::inline VERBENA_ABI::cm {

client::client(std::unique_ptr<detail::session_core> core, connection_request request) noexcept
    : session_side(std::move(core)), request_(std::move(request)) {}

result<session> client::accept(std::span<const std::byte> private_data, deadline until) && {
  auto made = take_core();
  VERBENA_ASSERT(made != nullptr, "a client is answered once");
  VERBENA_TRY(auto link, std::move(request_).accept(made->take_prepared(),
                                                    {.private_data = private_data}, until));
  VERBENA_TRY_VOID(made->begin(std::move(link), until));
  return session(std::move(made));
}

result<void> client::reject(std::span<const std::byte> private_data) && {
  return std::move(request_).reject(private_data);
}

result<server> server::open(const bringup::address& at, const listener_options& options) {
  VERBENA_TRY(auto door, listener::open(at, options));
  return server(std::move(door));
}

result<client> server::next_client(const session_options& options, deadline until) {
  VERBENA_TRY(auto request, listener_.accept(until));
  VERBENA_TRY(auto core, detail::session_core::create(request, detail::role::is_asked, options));
  return client(std::move(core), std::move(request));
}

}  // namespace verbena::inline VERBENA_ABI::cm
