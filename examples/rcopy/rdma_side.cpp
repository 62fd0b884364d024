// SPDX-License-Identifier: MIT
#include "examples/rcopy/rdma_side.hpp"

#include <poll.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "examples/rcopy/cm_rendezvous.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/bringup/connect_queue_pair.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"

namespace rcopy {
namespace {

using verbena::error;
using verbena::result;
namespace cm = verbena::cm;

constexpr std::size_t message_bytes = 8;
/// Slots of the send queue for cm::connection_options::first.
constexpr std::uint32_t go_ahead_requests = 3;

error unexpected(const conversation& with, std::string_view what) {
  return error::protocol("copy", with.peer.peer(), std::string("the peer sent ").append(what));
}

result<void> check_device(const verbena::context& device, const transfer_parameters& parameters) {
  if (parameters.device_name.empty() || device.name() == parameters.device_name) return {};
  return error::invalid_argument("connect", parameters.device_name,
                                 "the route to the peer uses " + device.name() +
                                     ": omit --device, or use an address of " +
                                     parameters.device_name);
}

/// Returns the side that sends first on the queue pair. Only iWARP requires this value.
cm::first_sender first_of(copy_end end, side side) {
  const bool client_sends = (end == copy_end::sender) == (side == side::client);
  return client_sends ? cm::first_sender::active : cm::first_sender::passive;
}

}  // namespace

result<rdma_side> rdma_side::connect(const transfer_parameters& parameters, copy_end end,
                                     const conversation& with) {
  if (parameters.over == transport::cm) {
    VERBENA_TRY(auto made, parameters.side == side::client
                               ? connect_as_client(parameters, end, with)
                               : connect_as_server(parameters, end, with));
    // siw does not process messages that arrive before its own side is connected. Each side
    // therefore waits until the peer is connected.
    VERBENA_TRY_DISCARD(with.peer.exchange({}, with.timeout_from_now()));
    return made;
  }
  VERBENA_TRY(auto made, create(*parameters.device, parameters.flow, end));
  VERBENA_TRY_VOID(made.connect_by_stream(with));
  return made;
}

result<rdma_side> rdma_side::create(const verbena::context& device, flow flow, copy_end end) {
  VERBENA_TRY(auto pd, device.allocate_pd());
  VERBENA_TRY(auto channel, device.create_completion_channel());
  // The completions of all work requests that both queues can hold.
  const std::uint32_t entries = 4U * flow.window + go_ahead_requests;
  VERBENA_TRY(auto queue, device.create_cq(entries, {.channel = channel}));
  auto access = verbena::access_flags(verbena::access::local_write);
  if (end == copy_end::receiver) access |= verbena::access::remote_write;
  VERBENA_TRY(auto ring, pd.allocate(flow.buffer_bytes(), access));
  VERBENA_TRY(auto messages,
              pd.allocate(2 * message_bytes * flow.window, verbena::access::local_write));
  return rdma_side(flow, end,
                   {.pd = std::move(pd),
                    .channel = std::move(channel),
                    .queue = std::move(queue),
                    .ring = std::move(ring),
                    .messages = std::move(messages)});
}

verbena::queue_pair_options<verbena::rc> rdma_side::options() const {
  verbena::queue_pair_options<verbena::rc> made{
      .queues = {.max_send_wr = 2U * flow_.window + go_ahead_requests,
                 .max_recv_wr = flow_.window}};
  if (end_ == copy_end::receiver)
    made.access = verbena::access::local_write | verbena::access::remote_write;
  return made;
}

result<void> rdma_side::take_peer_ring(std::span<const std::byte> encoded,
                                       const conversation& with) {
  const auto size = std::min(encoded.size(), verbena::remote_region::encoded_size);
  VERBENA_TRY(peer_ring_, verbena::remote_region::decode(encoded.first(size)));
  if (peer_ring_.length() != flow_.buffer_bytes())
    return unexpected(with, "a buffer whose size differs from the agreed size");
  return {};
}

result<void> rdma_side::post_receives(verbena::queue_pair<verbena::rc>& to) const {
  for (std::size_t i = 0; i < flow_.window; ++i) {
    const auto posted = to.post_receive(
        {.id = i}, own_.messages.slice((flow_.window + i) * message_bytes, message_bytes));
    if (!posted) return posted.error();
  }
  return {};
}

result<void> rdma_side::connect_by_stream(const conversation& with) {
  const auto until = with.timeout_from_now();
  VERBENA_TRY(auto prepared, own_.pd.create_qp<verbena::rc>(own_.queue, own_.queue, options()));
  const auto our_ring = own_.ring.remote().encode();
  VERBENA_TRY(const auto their_ring,
              with.peer.exchange(end_ == copy_end::receiver ? std::span<const std::byte>(our_ring)
                                                            : std::span<const std::byte>(),
                                 until));
  if (end_ == copy_end::sender) VERBENA_TRY_VOID(take_peer_ring(their_ring, with));
  VERBENA_TRY(auto connected, verbena::bringup::connect_queue_pair(
                                  std::move(prepared), with.peer, until,
                                  [this](auto& pair) { return post_receives(pair); }));
  queue_pair_.emplace(std::move(connected));
  return {};
}

result<rdma_side> rdma_side::connect_as_client(const transfer_parameters& parameters, copy_end end,
                                               const conversation& with) {
  const auto until = with.timeout_from_now();
  VERBENA_TRY(auto server, find_server(with, until));
  VERBENA_TRY(const auto device, server.peer.context());
  VERBENA_TRY_VOID(check_device(device, parameters));
  VERBENA_TRY(auto made, create(device, parameters.flow, end));
  VERBENA_TRY(auto prepared, server.peer.create_qp(made.own_.pd, made.own_.queue, made.own_.queue,
                                                   made.options()));
  std::vector<std::byte> private_data(server.token.begin(), server.token.end());
  const auto our_ring = made.own_.ring.remote().encode();
  if (end == copy_end::receiver)
    private_data.insert(private_data.end(), our_ring.begin(), our_ring.end());
  auto connected = server.peer.connect(
      std::move(prepared), {.private_data = private_data, .first = first_of(end, parameters.side)},
      until, [&made](auto& pair) { return made.post_receives(pair); });
  if (!connected) return cause_of(std::move(connected).error(), with);
  made.cm_connection_.emplace(*std::move(connected));
  if (end == copy_end::sender)
    VERBENA_TRY_VOID(made.take_peer_ring(made.cm_connection_->peer_private_data(), with));
  return made;
}

result<rdma_side> rdma_side::connect_as_server(const transfer_parameters& parameters, copy_end end,
                                               const conversation& with) {
  const auto until = with.timeout_from_now();
  VERBENA_TRY(auto request, await_client(with, until));
  VERBENA_TRY(const auto device, request.context());
  VERBENA_TRY_VOID(check_device(device, parameters));
  VERBENA_TRY(auto made, create(device, parameters.flow, end));
  if (end == copy_end::sender)
    VERBENA_TRY_VOID(
        made.take_peer_ring(request.private_data().subspan(std::tuple_size_v<token>), with));
  VERBENA_TRY(auto prepared,
              request.create_qp(made.own_.pd, made.own_.queue, made.own_.queue, made.options()));
  cm::connection_options options{.first = first_of(end, parameters.side)};
  const auto our_ring = made.own_.ring.remote().encode();
  if (end == copy_end::receiver) options.private_data = our_ring;
  auto connected =
      std::move(request).accept(std::move(prepared), options, until,
                                [&made](auto& pair) { return made.post_receives(pair); });
  if (!connected) return cause_of(std::move(connected).error(), with);
  made.cm_connection_.emplace(*std::move(connected));
  return made;
}

result<bool> rdma_side::poll() {
  const auto polled = own_.queue.poll(completions_);
  if (!polled) return polled.error();
  ready_ = *polled;
  return !ready_.empty();
}

result<std::optional<control_message>> rdma_side::next(const conversation& with) {
  constexpr int polls_before_sleep = 100;
  const auto until = with.timeout_from_now();
  for (int i = 0; i < polls_before_sleep && ready_.empty(); ++i) VERBENA_TRY_DISCARD(poll());
  while (ready_.empty()) {
    VERBENA_TRY_VOID(own_.queue.request_notification(verbena::notify::any_completion));
    VERBENA_TRY(const bool any, poll());
    if (any) break;
    VERBENA_TRY_VOID(wait_for(with, own_.channel.fd(), POLLIN, until));
    VERBENA_TRY_DISCARD(own_.channel.poll_event());
    VERBENA_TRY_DISCARD(poll());
  }
  const auto done = ready_.front();
  ready_ = ready_.subspan(1);
  auto outcome = done.result();
  if (!outcome) {
    auto failure = std::move(outcome).error();
    if (const auto reason = own_.queue.explain(done); !reason.empty())
      failure = std::move(failure).with_diagnosis(reason);
    return cause_of(std::move(failure), with);
  }
  if (!done.is_receive()) return std::optional<control_message>();
  VERBENA_TRY(const auto message, take_message(done, with));
  return std::optional(message);
}

result<control_message> rdma_side::take_message(const verbena::completion& received,
                                                const conversation& with) {
  if (received.byte_length() != message_bytes)
    return unexpected(with, "a control message of the wrong length");
  const std::size_t offset = (flow_.window + received.id()) * message_bytes;
  verbena::byte_reader reader(own_.messages.bytes().subspan(offset, message_bytes));
  const control_message message{.number = reader.take<std::uint32_t>().value_or(0),
                                .bytes = reader.take<std::uint32_t>().value_or(0)};
  const auto posted =
      queue_pair().post_receive({.id = received.id()}, own_.messages.slice(offset, message_bytes));
  if (!posted) return posted.error();
  return message;
}

verbena::local_slice rdma_side::write_message(control_message sent) {
  const std::size_t offset = written_messages_++ % flow_.window * message_bytes;
  auto* const at = own_.messages.bytes().subspan(offset, message_bytes).data();
  verbena::store_network_order(at, sent.number);
  verbena::store_network_order(at + sizeof sent.number, sent.bytes);
  return own_.messages.slice(offset, message_bytes);
}

result<void> rdma_side::send_chunk(std::uint64_t number, std::size_t bytes) {
  const std::size_t offset = number % flow_.window * flow_.chunk_bytes;
  const auto slice = write_message(
      {.number = static_cast<std::uint32_t>(number), .bytes = static_cast<std::uint32_t>(bytes)});
  auto batch = queue_pair().start_send();
  batch.write({}, own_.ring.slice(offset, bytes), peer_ring_.slice(offset, bytes));
  batch.send({.signaled = true}, slice);
  if (const auto posted = batch.submit(); !posted) return posted.error();
  return {};
}

result<void> rdma_side::send_message(control_message sent) {
  const auto slice = write_message(sent);
  auto batch = queue_pair().start_send();
  batch.send({.signaled = true}, slice);
  if (const auto posted = batch.submit(); !posted) return posted.error();
  return {};
}

std::span<std::byte> rdma_side::bytes(std::uint64_t number) const {
  return own_.ring.bytes().subspan(number % flow_.window * flow_.chunk_bytes, flow_.chunk_bytes);
}

}  // namespace rcopy
