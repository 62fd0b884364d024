// SPDX-License-Identifier: MIT
#include "verbena/async/detail/disconnect_watch.hpp"

#include <poll.h>

#include "verbena/base/log.hpp"
#include "verbena/cm/connection.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

void disconnect_watch::start(cm::connection* of, look_function look, void* owner) noexcept {
  if (of == nullptr) return;
  connection_ = of;
  look_ = look;
  owner_ = owner;
  // The program may have taken the event already.
  if (!look(owner)) wait();
}

void disconnect_watch::wait() noexcept {
  const bool waits =
      start_wait(connection_->fd(), POLLIN, deadline::never(), [](queued_waiter& self) {
        auto& mine = static_cast<disconnect_watch&>(self);
        mine.settle_wait();
        if (!mine.look_(mine.owner_)) mine.wait();
      });
  if (waits) return;
  const auto why = outcome();
  if (!why.has_value())
    log(log_level::warning,
        "the connection of a channel is not watched for a disconnect: " + why.error().message());
}

}  // namespace verbena::inline VERBENA_ABI::async::detail
