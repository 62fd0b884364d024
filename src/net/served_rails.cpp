// SPDX-License-Identifier: MIT
#include "src/net/served_rails.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "src/base/call_or_else.hpp"
#include "src/net/channel_access.hpp"
#include "verbena/channel/prepared_channel.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

served_rails::served_rails(rail_control control, std::span<const rail_port> rails,
                           const rail_responder_options& options)
    : control_(std::move(control)), options_(options) {
  for (const rail_port& each : rails) rails_.push_back({.port = each});
  known_.set();
}

void served_rails::end() noexcept {
  if (has_ended_) return;
  has_ended_ = true;
  for (served_rail& each : rails_) {
    if (!each.queue) continue;
    // In the error state, it executes no requests, also if it cannot be destroyed.
    verbena::detail::call_or_else([&] { each.queue->flush(); }, [this] { is_accessible_ = true; });
    is_accessible_ = is_accessible_ || channel_access::has_undestroyed_queue(*each.queue);
    each.queue.reset();
  }
  control_.end();
  // Afterwards, because the program may release the memory when is_connected() returns false.
  is_connected_.store(is_accessible_);
}

void served_rails::report(const active_ports& now) {
  for (std::uint32_t rail = 0; rail < rails_.size(); ++rail) {
    if (now[rail] == known_[rail]) continue;
    known_[rail] = now[rail];
    control_.send(
        {.kind = rail_message_kind::port, .rail = rail, .generation = now[rail] ? 1U : 0U});
  }
}

void served_rails::serve() {
  // A peer that sends without a pause must not delay others and the destructor.
  for (int count = 0; count < most_messages_in_turn; ++count) {
    const auto message = control_.poll();
    if (!message) break;
    serve(*message);
  }
}

void served_rails::serve(const rail_message& message) {
  served_rail& which = rails_[message.rail];
  if (message.kind == rail_message_kind::connect) return connect(which, message);
  if (message.kind != rail_message_kind::fence) return;  // those of the responder
  if (which.generation <= message.generation && !end(message.rail)) return;
  control_.send(
      {.kind = rail_message_kind::fenced, .rail = message.rail, .generation = message.generation});
}

// Moves the queue pair of a rail to the error state, or destroys it: it executes no requests then.
// If the device refuses both, ends the connection and returns false.
bool served_rails::end(std::uint32_t rail) {
  auto& queue = rails_[rail].queue;
  if (!queue) return true;
  auto* const pair = queue->qp();
  if (pair == nullptr) return !channel_access::has_undestroyed_queue(*queue);
  auto moved = pair->modify(queue_pair_attributes().set_state(queue_pair_state::error));
  // If it could not be moved to the error state, destroys it.
  queue->flush();
  if (moved || !channel_access::has_undestroyed_queue(*queue)) return true;
  is_accessible_ = true;
  control_.refuse(std::move(moved).error().with_diagnosis(
      fmt::format("the queue pair of rail {} can be neither moved to the error state nor "
                  "destroyed, so that failed requests cannot be repeated; reset the device",
                  rail)));
  return false;
}

void served_rails::connect(served_rail& which, const rail_message& request) {
  rail_message answer{
      .kind = rail_message_kind::connected, .rail = request.rail, .generation = request.generation};
  if (auto made = make(which, request)) {
    answer.endpoint = *made;
  } else {
    answer.kind = rail_message_kind::refused;
    answer.reason = made.error().message();
  }
  control_.send(answer);
}

result<verbena::endpoint> served_rails::make(served_rail& which, const rail_message& request) {
  const channel_options options{.queues = {.max_send_wr = 1, .max_recv_wr = 1},
                                .access = options_.access,
                                .route = which.port.route,
                                .reliability = options_.reliability};
  VERBENA_TRY(auto prepared, which.port.domain.create_channel(options));
  const auto local = prepared.endpoint();
  VERBENA_TRY(auto connected, std::move(prepared).handshake(*request.endpoint));
  // The new queue pair exists before the old one ends, so their numbers differ.
  if (!end(request.rail))
    return error::from_errno(EIO, "ibv_destroy_qp", which.port.domain.context().name(),
                             "the earlier queue pair of the rail cannot be ended");
  which.queue.emplace(std::move(connected));
  which.generation = request.generation;
  return local;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
