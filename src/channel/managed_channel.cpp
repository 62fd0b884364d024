// SPDX-License-Identifier: MIT
// Channels that the connection manager connects.
#include <memory>
#include <optional>
#include <utility>

#include "verbena/channel/prepared_channel.hpp"
#include "verbena/cm/connector.hpp"
#include "verbena/cm/listener.hpp"

namespace verbena::inline VERBENA_ABI {

// Receives are posted before the connection stands, and belong to the channel: it has the queue
// pair while `prepare` runs, gives it back to be connected, and gets it when it is.
template <class Bring>
result<channel> prepared_channel::manage(prepared_channel self, const channel_preparation& prepare,
                                         Bring&& bring_up) {
  channel made(nullptr);
  const cm::receive_poster post_receives = [&](queue_pair<rc>& queue) -> result<void> {
    made = std::move(self).with(std::move(queue), {});
    auto posted = prepare ? prepare(made) : result<void>();
    auto& lent = made.core().queue();
    VERBENA_ASSERT(lent, "what prepares a channel posts to it, and does not end it");
    queue = std::move(*std::exchange(lent, std::nullopt));
    return posted;
  };
  auto connected = bring_up(std::move(self.queue_), post_receives);
  if (!connected) {
    // The queue pair is gone, and what was posted with it.
    if (made.core_ != nullptr) made.core().lose(connected.error().code());
    return std::move(connected).error();
  }
  auto kept = std::make_shared<cm::connection>(*std::move(connected));
  made.core().queue().emplace(kept->take_queue());
  made.core().keep(std::move(kept));
  return made;
}

result<channel> prepared_channel::connect(cm::connector& peer,
                                          const cm::connection_options& options, deadline until,
                                          const channel_preparation& prepare) && {
  return manage(std::move(*this), prepare,
                [&](prepared_queue_pair<rc>&& queue, const cm::receive_poster& post_receives) {
                  return peer.connect(std::move(queue), options, until, post_receives);
                });
}

result<channel> prepared_channel::accept(cm::connection_request&& request,
                                         const cm::connection_options& options, deadline until,
                                         const channel_preparation& prepare) && {
  return manage(std::move(*this), prepare,
                [&](prepared_queue_pair<rc>&& queue, const cm::receive_poster& post_receives) {
                  return std::move(request).accept(std::move(queue), options, until, post_receives);
                });
}

}  // namespace verbena::inline VERBENA_ABI
