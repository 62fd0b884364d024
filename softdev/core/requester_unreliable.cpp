// SPDX-License-Identifier: MIT
// Requests of unreliable transports: nobody answers, so a request is done when its path has taken
// it, whatever becomes of the message. The window stays empty, but for injected
// delays.
#include <array>
#include <utility>

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/requester.hpp"
#include "softdev/core/same_process.hpp"

namespace verbena::softdev {
namespace {

/// How long a message waits for a path that has no room, or to a process that does not answer yet.
constexpr time_ns patience = 1'000'000'000;

}  // namespace

/// Hands the request at `submitted_` to its path. False when the queue stops here for now.
bool requester::start_unreliable(send_entry& entry) noexcept {
  const bool addressed = is_addressed(self_.transport());
  std::array<std::byte, route_header_bytes> route;
  std::array<segment, limits::max_sges + 1> pieces;
  pieces[0] = {route.data(), route.size()};
  failure why;
  const std::size_t count = gather(submitted_, std::span(pieces).subspan(1), why);
  if (why.why != reason::none) {
    end(entry, completion_status::local_protection_error, why);
    return false;
  }
  std::uint64_t length = 0;
  for (std::size_t i = 1; i <= count; ++i) length += pieces[i].bytes;
  const std::uint64_t most = addressed ? limits::max_datagram_bytes : limits::max_message_bytes;
  if (length > most) {
    const failure why_not{.why = reason::message_too_long, .length = length, .limit = most};
    // A datagram that exceeds the MTU is not sent, and that is not an error (IBTA C10-93.1.1).
    if (addressed) return settle_unreliable(entry, {.why = why_not});
    end(entry, completion_status::local_length_error, why_not);
    return false;
  }
  entry.byte_count = static_cast<std::uint32_t>(length);
  entry.psn = next_psn_;
  entry.stage = send_entry::progress::in_flight;
  message what = message_of(entry.request, next_psn_, length);
  what.transport = self_.transport();
  what.attempt = attempt_;
  what.source_qpn = self_.number();
  what.destination_qpn = self_.attributes().destination_qpn;
  what.partition = self_.home().port().partition(self_.attributes().pkey_index);
  what.destination_lid = self_.attributes().destination_lid;
  if (!addressed)
    return settle_unreliable(entry, send_unreliable(what, {pieces.data() + 1, count}));
  const datagram_destination& to = destination(submitted_);
  if (!to.known) {
    end(entry, completion_status::local_qp_operation_error,
        {.why = reason::no_address, .detail = self_.number()});
    return false;
  }
  to.address.write(route, entry.byte_count, has_immediate(what.opcode));
  what.length += route_header_bytes;
  what.destination_qpn = to.qpn;
  what.remote_key = to.key_of(self_.attributes().qkey);
  what.origin = to.address.origin();
  what.origin.lid = self_.home().port().lid();
  what.destination_lid = to.address.lid();
  return settle_unreliable(entry, send_unreliable(what, {pieces.data(), count + 1}));
}

response requester::send_unreliable(const message& what, std::span<const segment> local) noexcept {
  engine& home = self_.home();
  const auto nobody = [&](reason why) {
    return response{.outcome = verdict::no_answer,
                    .why = {.why = why, .detail = what.destination_qpn}};
  };
  if (!home.port().up()) return nobody(reason::port_down);
  if (!self_.attributes().destination_is_this_host) return nobody(reason::peer_unreachable);
  if (what.destination_qpn == multicast_qpn && what.transport == transport::ud)
    return send_to_group(what, local);
  if (home.is_local(what.destination_qpn)) {
    queue_pair* target = home.find(what.destination_qpn);
    if (target == nullptr) return nobody(reason::peer_unknown);
    // The target counts what it drops.
    const response done = execute_in_process(*target, what, local);
    return done.outcome == verdict::local_protection_error ? done : response{};
  }
  remote_path* remote = home.remote();
  if (remote == nullptr) return nobody(reason::peer_unreachable);
  return remote->submit(self_, what, local, false);
}

/// Every member of the group has its own copy, or none: nobody waits for one that is not ready. The
/// path comes first, because it may want the datagram to be sent once more.
response requester::send_to_group(const message& what, std::span<const segment> local) noexcept {
  engine& home = self_.home();
  if (remote_path* remote = home.remote()) {
    const response sent = remote->submit(self_, what, local, false);
    if (sent.outcome == verdict::blocked || sent.outcome == verdict::local_protection_error)
      return sent;
  }
  if (!what.origin.has_route) return {};
  const gid_bytes group = destination_of(
      std::span<const std::byte, route_header_bytes>(local.front().data, route_header_bytes));
  message copy = what;
  copy.destination_lid = home.port().lid();
  for (const std::uint32_t member : home.groups().members(group)) {
    queue_pair* target = home.find(member);
    if (target == nullptr) continue;
    copy.destination_qpn = member;
    const response done = execute_in_process(*target, copy, local);
    if (done.outcome == verdict::local_protection_error) return done;
  }
  return {};
}

/// Takes the path's word about the request at `submitted_`. False when the queue stops here.
bool requester::settle_unreliable(send_entry& entry, const response& what) noexcept {
  failure why = what.why;
  if (what.outcome == verdict::local_protection_error) {
    patience_ = never;
    end(entry, status_of(what.outcome), name_local(submitted_, why));
    return false;
  }
  if (what.outcome == verdict::blocked || what.outcome == verdict::partial) {
    const time_ns now = self_.home().now();
    if (patience_ == never) patience_ = now + patience;
    if (now < patience_) {
      if (what.outcome == verdict::blocked)
        entry.stage = send_entry::progress::queued;
      else
        begun_ = submitted_ + 1;
      self_.home().schedule(self_, patience_);
      return false;
    }
    why = {.why = reason::path_full,
           .length = patience,
           .detail = is_addressed(self_.transport()) ? destination(submitted_).qpn
                                                     : self_.attributes().destination_qpn};
  }
  patience_ = never;
  if (why.why != reason::none) self_.drops().note(why);
  entry.stage = entry.settled;
  next_psn_ = (next_psn_ + 1) & psn_mask;
  ++submitted_;
  return true;
}

}  // namespace verbena::softdev
