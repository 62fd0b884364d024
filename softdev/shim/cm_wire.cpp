// SPDX-License-Identifier: MIT
#include "softdev/shim/cm_wire.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "softdev/cm/mad_gateway.hpp"
#include "softdev/host/warn_once.hpp"
#include "softdev/shim/cm_address.hpp"
#include "softdev/shim/cm_process.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::softdev {
namespace {

/// `interface`: the scope of a link-local address.
cm::address to_cm_address(const wire::network_address& from, std::uint32_t interface) noexcept {
  cm::address out{.family = cm::address_family::ipv6, .bytes = from};
  if (wire::is_link_local(from)) out.scope = interface;
  if (!wire::is_ipv4(from)) return out;
  out = {.family = cm::address_family::ipv4};
  std::copy_n(from.end() - 4, 4, out.bytes.begin());
  return out;
}

int failed(const error& why) {
  warn_once("soft0: " + why.message());
  return why.code();
}

}  // namespace

cm::mad_identity cm_wire::identity() const noexcept {
  cm::mad_identity out{.process_slot = home_.peer_link().slot()};
  std::memcpy(&out.guid, home_.persona().node_guid.data(), sizeof out.guid);
  out.guid = network_order(out.guid);
  return out;
}

int cm_wire::open() {
  if (const auto opened = home_.wire().open(); !opened) return failed(opened.error());
  return home_.start_thread();
}

int cm_wire::find_source(const cm::address& to, cm::address& source) {
  if (!cm::is_multicast(to) && !is_on_another_host(home_, to)) return EHOSTUNREACH;
  std::optional<gid_bytes> bound;
  if (source.family == to.family && !cm::is_wildcard(source)) bound = cm::gid_of(source);
  const std::uint32_t interface = to.scope != 0 ? to.scope : source.scope;
  const auto own =
      home_.wire().reach(cm::gid_of(to), interface, bound, home_.adapter().gids().all());
  // No warning for a group: without a route to it, its members are on this host.
  if (!own) return cm::is_multicast(to) ? own.error().code() : failed(own.error());
  if (const int refused = open()) return refused;
  source = to_cm_address(*own, interface);
  return 0;
}

void cm_wire::send(const cm::address& own, const cm::address& peer, cm::mad_view message) noexcept {
  home_.wire().send_message({.own = cm::gid_of(own),
                             .peer = cm::gid_of(peer),
                             .interface = own.scope != 0 ? own.scope : peer.scope},
                            message);
}

std::optional<std::uint32_t> cm_wire::slot_of(wire::management_view message) const noexcept {
  const auto receiver = cm::receiver_of(message);
  // A message about a request that was not answered yet has the ID 0.
  if (!receiver || *receiver == 0) return std::nullopt;
  return cm::slot_of_communication_id(*receiver);
}

void cm_wire::message_arrived(const wire::management_addresses& ends,
                              wire::management_view message) noexcept {
  const cm::address own = to_cm_address(ends.own, ends.interface);
  const cm::address peer = to_cm_address(ends.peer, ends.interface);
  // The thread of the manager processes the message.
  if (const cm_process* const here = known_cm(); here != nullptr)
    return here->manager->deliver(own, peer, message);
  const auto parsed = cm::parse_mad(message);
  if (!parsed) return;
  if (cm::is_request(parsed->kind)) {
    if (!admit(own, peer, *parsed)) return;
    // This process has no thread that could keep the request until a process listens.
    if (pass(own, peer, *parsed) == ECONNREFUSED)
      cm::reject_request(*this, own, peer, *parsed, cm::reject_reason::no_listener);
    return;
  }
  if (parsed->kind == cm::mad_kind::rejection && parsed->receiver_id == 0) {
    const std::lock_guard lock(lock_);
    return passed_.give_up(peer, *parsed);
  }
  const auto answer = cm::answer_to_unknown(*parsed);
  if (!answer) return;
  std::array<std::byte, cm::mad_bytes> bytes;
  cm::write_mad(*answer, bytes);
  home_.wire().send_message(ends, bytes);
}

int cm_wire::pass(const cm::address& own, const cm::address& peer,
                  const cm::mad& request) noexcept {
  const std::lock_guard lock(lock_);
  return passed_.pass(own, peer, request);
}

bool cm_wire::admit(const cm::address& own, const cm::address& peer,
                    const cm::mad& request) noexcept {
  // The program sees the addresses of the packet, so the request must contain the same ones.
  // Programs of this host do not use this path; a packet from an address of this host is forged.
  const cm::frame& content = request.content;
  const bool has_port = content.source.family != cm::address_family::none;
  const bool genuine =
      cm::same_host(content.source, peer) && cm::same_host(content.destination, own);
  if ((has_port && !genuine) || cm::is_local(peer)) return false;
  if (has_port && request.rejection_reason == 0) return true;
  const std::uint32_t why =
      request.rejection_reason != 0 ? request.rejection_reason : cm::reject_reason::no_listener;
  cm::reject_request(*this, own, peer, request, why);
  return false;
}

cm_wire* cm_wire_of(host& home) {
  if (!home.wire().on()) return nullptr;
  static std::atomic<cm_wire*> current{nullptr};
  cm_wire* found = current.load(std::memory_order_acquire);
  if (found != nullptr && &found->home() == &home) return found;
  auto made = std::make_unique<cm_wire>(home);
  if (!current.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) return found;
  home.wire().set_management(made.get());
  return made.release();  // lives as long as the process, like the host
}

bool is_on_another_host(host& home, const cm::address& which) noexcept {
  return home.wire().on() && which.family != cm::address_family::none && !cm::is_wildcard(which) &&
         !cm::is_multicast(which) && !cm::is_local(which);
}

}  // namespace verbena::softdev
