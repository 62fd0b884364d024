// SPDX-License-Identifier: MIT
#include "softdev/core/transport/unreliable_requester.hpp"

#include <array>

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/same_process.hpp"
#include "softdev/core/transport/rules.hpp"

namespace verbena::softdev {
namespace {

/// The time that a message waits for a path without room, or for a process that does not answer
/// yet. It starts again after each part of the message that was sent.
constexpr time_ns patience = 1'000'000'000;

using route_header = std::array<std::byte, grh_bytes>;

/// Puts the GRH in front of a datagram.
void add_route(outgoing_request& out, const datagram_address& to, std::uint16_t own_lid,
               route_header& header) noexcept {
  to.write(header, out.what.length, has_immediate(out.what.opcode));
  out.pieces[0] = {header.data(), header.size()};
  out.local = {out.pieces.data(), out.local.size() + 1};
  out.what.length += grh_bytes;
  out.what.origin = to.origin();
  out.what.origin.lid = own_lid;
}

}  // namespace

void unreliable_requester::start_requests() noexcept {
  start_each([](const send_entry& /*entry*/) { return true; },
             [this](send_entry& entry) { return start(entry); });
}

/// Hands the next request to its path. Returns false if the queue stops at this request for now.
bool unreliable_requester::start(send_entry& entry) noexcept {
  const bool routed = rules_of(self().transport()).routed;
  const std::uint64_t index = window().submitted();
  entry.psn = next_psn_;
  outgoing_request out;
  const auto [refused, why] = prepare(index, out);
  // A datagram that exceeds the MTU is not sent, and that is not an error (IBTA C10-93.1.1).
  if (routed && why.why == reason::message_too_long) return settle(entry, out, {.why = why});
  if (refused != completion_status::success) {
    step_psn();  // a path may have begun the request: the next one must not continue it
    end(entry, refused, why);
    return false;
  }
  entry.stage = send_entry::progress::in_flight;
  if (!routed) return settle(entry, out, send(out));
  const datagram_address& to = destination(index).address;
  if (out.what.length > to.longest_payload())
    return settle(entry, out,
                  {.why = {.why = reason::message_too_long,
                           .length = out.what.length,
                           .limit = to.longest_payload()}});
  route_header header;
  add_route(out, to, self().home().port().lid(), header);
  return settle(entry, out, send(out));
}

response unreliable_requester::send(outgoing_request& out) noexcept {
  const route way = find_route(self(), out.what);
  if (way.why == reason::none && is_for_group(out.what)) return send_to_group(way, out);
  const response done = send_along(way, self(), out.what, out.local, false);
  // A target in this process counts the messages that it drops.
  if (way.here != nullptr && done.outcome != verdict::local_protection_error) return {};
  return done;
}

/// Sends a copy to each member of the group. A member that is not ready receives none. The path is
/// first: if it is `blocked`, the whole datagram is sent again.
response unreliable_requester::send_to_group(const route& way, outgoing_request& out) noexcept {
  engine& home = self().home();
  if (way.away != nullptr) {
    const response sent = send_along(way, self(), out.what, out.local, false);
    if (sent.outcome == verdict::blocked || sent.outcome == verdict::local_protection_error)
      return sent;
  }
  if (!out.what.origin.has_grh) return {};
  const gid_bytes group =
      destination_of(std::span<const std::byte, grh_bytes>(out.local.front().data, grh_bytes));
  // Each copy is addressed to its receiver.
  out.what.destination_lid = home.port().lid();
  for (const std::uint32_t member : home.groups().members(group)) {
    queue_pair* target = home.find(member);
    if (target == nullptr) continue;
    out.what.destination_qpn = member;
    const response done = execute_in_process(*target, out.what, out.local);
    if (done.outcome == verdict::local_protection_error) return done;
  }
  return {};
}

/// Handles the path's response to the next request. Returns false if the queue stops at this
/// request.
bool unreliable_requester::settle(send_entry& entry, const outgoing_request& out,
                                  const response& what) noexcept {
  failure why = what.why;
  if (what.outcome == verdict::local_protection_error) {
    patience_ = never;
    step_psn();
    end(entry, status_of(what.outcome), window().name_local(window().submitted(), why));
    return false;
  }
  if (what.outcome == verdict::blocked || what.outcome == verdict::partial) {
    const time_ns now = self().home().now();
    if (patience_ == never || what.moved) patience_ = now + patience;
    if (now < patience_) {
      if (what.outcome == verdict::blocked)
        entry.stage = send_entry::progress::queued;
      else
        window().note_begun();
      self().home().schedule(self(), patience_);
      return false;
    }
    why = {.why = reason::path_full, .length = patience, .detail = out.what.destination_qpn};
  }
  patience_ = never;
  if (why.why != reason::none) self().diagnosis().drops.note(why);
  entry.stage = entry.settled;
  step_psn();
  window().submit_next();
  return true;
}

}  // namespace verbena::softdev
