// SPDX-License-Identifier: MIT
#include "softdev/cm/mad_routing.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <new>
#include <utility>

#include "softdev/cm/port_names.hpp"
#include "softdev/core/process_slot.hpp"
#include "softdev/ipc/local_socket.hpp"

namespace verbena::softdev::cm {

std::uint32_t slot_of_communication_id(std::uint32_t id) noexcept {
  return slot_of_number(id >> low_bits_of_communication_id);
}

int pass_to_listener(const address& own, const address& peer, const mad& request) noexcept {
  frame what = request.content;
  const bool is_sidr = what.kind == frame_kind::sidr_request;
  what.kind = is_sidr ? frame_kind::remote_sidr_request : frame_kind::remote_request;
  what.communication_id = request.sender_id;
  what.transaction = request.transaction;
  if (what.destination.family == address_family::none) return ECONNREFUSED;
  // Messages contain no scopes.
  what.source.scope = peer.scope;
  what.destination.scope = own.scope;
  try {
    const socket_or_error to = connect_to_port(what.space, what.destination);
    if (to.error == EACCES) return ECONNREFUSED;
    if (to.error != 0) return to.error;
    return send_frame(to.socket.get(), what) == send_outcome::sent ? 0 : EAGAIN;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

passed_requests::passed_request* passed_requests::find(const address& peer,
                                                       std::uint32_t communication_id) noexcept {
  for (passed_request& each : last_)
    if (each.communication_id == communication_id && same_host(each.peer, peer)) return &each;
  return nullptr;
}

int passed_requests::pass(const address& own, const address& peer, const mad& request) noexcept {
  const int refused = pass_to_listener(own, peer, request);
  if (refused != 0 || request.kind != mad_kind::request) return refused;
  passed_request made{.peer = peer,
                      .communication_id = request.sender_id,
                      .space = request.content.space,
                      .listener = request.content.destination};
  made.listener.scope = own.scope;
  if (passed_request* const before = find(peer, request.sender_id)) {
    *before = made;
    return 0;
  }
  if (last_.size() == most) {
    last_[std::exchange(next_, (next_ + 1) % most)] = made;
    return 0;
  }
  try {
    last_.push_back(made);
  } catch (const std::bad_alloc&) {
    // The request ends at its deadline.
  }
  return 0;
}

void passed_requests::give_up(const address& peer, const mad& rejection) noexcept {
  const passed_request* const found = find(peer, rejection.sender_id);
  if (found == nullptr) return;
  frame what = rejection.content;
  what.kind = frame_kind::remote_rejection;
  what.space = found->space;
  what.source = peer;
  what.destination = found->listener;
  what.communication_id = rejection.sender_id;
  what.transaction = rejection.transaction;
  try {
    const socket_or_error to = connect_to_port(found->space, found->listener);
    if (to.socket) static_cast<void>(send_frame(to.socket.get(), what));
  } catch (const std::bad_alloc&) {
    return;
  }
}

void reject_request(mad_carrier& by, const address& own, const address& peer, const mad& request,
                    std::uint32_t reason) noexcept {
  mad out{.transaction = request.transaction,
          .receiver_id = request.sender_id,
          .subject = mad_subject::request};
  out.content.space = request.content.space;
  out.content.destination = request.content.destination;
  if (request.kind == mad_kind::sidr_request) {
    out.kind = mad_kind::sidr_reply;
    out.sender_id = request.sender_id;
    out.content.reason =
        reason == reject_reason::no_listener ? sidr_status::no_listener : sidr_status::rejected;
  } else {
    out.kind = mad_kind::rejection;
    out.content.reason = reason;
  }
  std::array<std::byte, mad_bytes> bytes{};
  write_mad(out, bytes);
  by.send(own, peer, bytes);
}

std::optional<mad> answer_to_unknown(const mad& message) noexcept {
  mad out{.transaction = message.transaction,
          .sender_id = message.receiver_id,
          .receiver_id = message.sender_id};
  switch (message.kind) {
    case mad_kind::disconnect:
      out.kind = mad_kind::disconnected;
      return out;
    case mad_kind::reply:
      out.kind = mad_kind::rejection;
      out.subject = mad_subject::reply;
      out.content.reason = reject_reason::invalid_communication_id;
      return out;
    default:
      return std::nullopt;
  }
}

}  // namespace verbena::softdev::cm
