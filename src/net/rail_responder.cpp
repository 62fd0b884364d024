// SPDX-License-Identifier: MIT
#include "verbena/net/rail_responder.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "src/net/rail_checks.hpp"
#include "src/net/rail_message.hpp"
#include "src/net/responder_thread.hpp"
#include "src/net/served_rails.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(responder_thread& of) noexcept { delete &of; }

}  // namespace detail

result<rail_responder> rail_responder::accept(bringup::stream control,
                                              std::span<const rail_port> rails, deadline until,
                                              const rail_responder_options& options) {
  constexpr const char* call = "rail_responder::accept";
  VERBENA_TRY_VOID(detail::check_rails(call, rails));
  unique_fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return error::from_errno(errno, "eventfd", control.peer());
  const auto count = static_cast<std::uint32_t>(rails.size());
  VERBENA_TRY_VOID(
      detail::exchange_hellos(call, control, detail::rail_role::passive, count, until));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): of the sole_owner
  auto* const made =
      new detail::responder_thread({.rails = {rails.begin(), rails.end()},
                                    .wake = std::move(wake),
                                    .events = std::make_shared<detail::rail_events>(rails),
                                    .ends_with_peers = true});
  rail_responder out(made);
  made->add(std::make_unique<detail::served_rails>(detail::rail_control(std::move(control), count),
                                                   rails, options));
  VERBENA_TRY_VOID(made->start());
  return out;
}

bool rail_responder::is_connected() const noexcept { return thread_->is_connected(); }

}  // namespace verbena::inline VERBENA_ABI::net
