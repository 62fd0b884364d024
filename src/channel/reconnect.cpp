// SPDX-License-Identifier: MIT
// Reconnects a channel with a new queue pair.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "src/base/earliest.hpp"
#include "src/channel/connect.hpp"
#include "src/channel/connection_options.hpp"
#include "src/channel/connection_record.hpp"
#include "src/channel/unconnected_channel.hpp"
#include "verbena/bringup/connect_queue_pair.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/reconnection.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

constexpr int retry_interval_ms = 5;

// Returns true if both sides refer to the same connection. `ended` is the record of this side.
bool is_that_connection(const resume_token& peer_token, const detail::ended_connection& ended,
                        std::uint64_t identity) {
  return peer_token.before && ended.peer && peer_token.self.channel == ended.peer->channel &&
         peer_token.before->connection == ended.peer->connection &&
         peer_token.before->peer ==
             connection_identity{.channel = identity, .connection = ended.number};
}

// Returns the current index of the GID that the options selected by index.
result<gid_index> find_again(const gid_entry& chosen, const context& device) {
  VERBENA_TRY(const auto table, device.gid_table());
  const auto now = std::ranges::find_if(table, [&](const gid_entry& each) {
    return each.port == chosen.port && each.type == chosen.type && each.gid == chosen.gid;
  });
  if (now != table.end()) return now->index;
  return error::unavailable(
      ENODATA, "channel::reconnect", device.name(),
      "the port no longer has the GID that the options of the channel chose: " + to_string(chosen));
}

result<prepared_queue_pair<rc>> prepare_queue(const detail::channel_core& core) {
  std::optional<gid_index> at;
  if (core.record().chosen_gid) {
    VERBENA_TRY(at, find_again(*core.record().chosen_gid, core.domain().context()));
  }
  return detail::prepare_queue_again(core, at);
}

// Retries to create the queue pair until the port is up, `until` passes, or the peer disconnects.
result<prepared_queue_pair<rc>> wait_for_queue(detail::channel_core& core,
                                               const bringup::stream& peer, deadline until) {
  while (true) {
    auto made = prepare_queue(core);
    if (made || made.error().kind() != error_kind::unavailable || until.expired()) return made;
    pollfd gone{peer.fd(), POLLRDHUP, 0};
    if (::poll(&gone, 1, retry_interval_ms) > 0) return made;
  }
}

}  // namespace

reconnection::reconnection(detail::channel_core& core,
                           const std::optional<resume_token>& peer_token) {
  const auto& ended = core.record().book.last();
  if (!peer_token || !ended || !ended->peer) return;
  const bool is_same = peer_token->self.channel == ended->peer->channel;
  peer_ = is_same ? reconnected_peer::same : reconnected_peer::another;
  if (!ended->counted || !is_that_connection(*peer_token, *ended, core.record().book.identity()))
    return;
  const auto received = peer_token->before->received;
  // The peer has received all acknowledged messages and no message that was not sent; otherwise the
  // counts are invalid. iWARP has no acknowledgements: a send succeeds when the connection has
  // accepted the message.
  const bool is_short = received && *received < ended->sent;
  if (!received || (is_short && !detail::is_iwarp(core.domain().context())) ||
      (!is_short && *received - ended->sent > ended->failed))
    return;
  received_by_peer_ = received;
  first_failed_ = ended->first_failed;
  failed_ = ended->failed;
  if (is_short)
    succeeded_but_lost_ = ended->sent - *received;
  else
    failed_but_received_ = *received - ended->sent;
}

delivery reconnection::reconcile(const operation_result& of) const noexcept {
  const delivery before = of.delivery();
  if (succeeded_but_lost_ != 0 && of.has_value() && of.done_.opcode() == completion_opcode::send)
    return delivery::unknown;
  if (before != delivery::unknown || !received_by_peer_ || !of.completed_ ||
      !detail::is_message(of.kind_))
    return before;
  const std::uint32_t place = static_cast<std::uint32_t>(of.number_) - first_failed_;
  if (place >= failed_) return before;
  if (place < failed_but_received_) return delivery::done;
  // The bytes of a write with immediate data may have arrived without the immediate data.
  return of.kind_ == detail::operation_kind::send ? delivery::not_done : before;
}

prepared_reconnection::prepared_reconnection(detail::channel_core& core,
                                             prepared_queue_pair<rc> queue)
    : core_(&core), queue_(std::move(queue)), resume_token_(core.record().book.next()) {
  core.hold();
}

prepared_reconnection::prepared_reconnection(prepared_reconnection&& other) noexcept
    : core_(std::exchange(other.core_, nullptr)),
      queue_(std::move(other.queue_)),
      resume_token_(other.resume_token_) {}

prepared_reconnection::~prepared_reconnection() { detail::channel_core::release(core_); }

verbena::endpoint prepared_reconnection::endpoint() const { return queue_.endpoint(); }

result<reconnection> prepared_reconnection::handshake(
    const verbena::endpoint& remote, const std::optional<verbena::resume_token>& peer_token) && {
  prepared_reconnection self = std::move(*this);
  if (self.core_->qp())
    return error::invalid_argument("prepared_reconnection::handshake", {},
                                   "the channel has been reconnected in the meantime");
  VERBENA_TRY(auto connected, std::move(self.queue_).handshake(remote));
  return std::move(self).with(std::move(connected), peer_token);
}

result<reconnection> prepared_reconnection::handshake(const verbena::endpoint& remote) && {
  return std::move(*this).handshake(remote, std::nullopt);
}

reconnection prepared_reconnection::with(
    queue_pair<rc> connected, const std::optional<verbena::resume_token>& peer_token) && {
  const reconnection made(*core_, peer_token);
  core_->record().book.begin(resume_token_.self.connection);
  core_->record().book.meet(peer_token);
  core_->connect_again(std::move(connected));
  return made;
}

result<prepared_reconnection> channel::prepare_reconnect() {
  VERBENA_TRY_VOID(detail::check_reconnectable("channel::prepare_reconnect", core()));
  core().disconnect();
  VERBENA_TRY(auto queue, prepare_queue(core()));
  return prepared_reconnection(core(), std::move(queue));
}

result<reconnection> channel::reconnect(bringup::stream& peer, deadline until,
                                        const bringup::negotiation_options& options) {
  if (auto checked = detail::check_reconnectable("channel::reconnect", core()); !checked)
    return bringup::detail::give_up(std::move(checked).error(), peer);
  core().disconnect();
  const auto end_of_wait = detail::earliest(until, options.port_timeout);
  auto queue = wait_for_queue(core(), peer, end_of_wait);
  if (!queue) return bringup::detail::give_up(std::move(queue).error(), peer);
  prepared_reconnection again(core(), *std::move(queue));
  VERBENA_TRY(auto made, detail::connect_over(std::move(again.queue_), again.resume_token_,
                                              {.peer = peer, .until = until}, options)
                             .wait());
  return std::move(again).with(std::move(made.queue), made.peer_token);
}

}  // namespace verbena::inline VERBENA_ABI
