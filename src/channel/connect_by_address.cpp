// SPDX-License-Identifier: MIT
// Connects message channels by address: opens the device and connects over TCP or, on iWARP, with
// the connection manager.
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/verbs/iwarp.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/message_channel.hpp"
#include "verbena/channel/message_channel_options.hpp"
#include "verbena/channel/prepared_message_channel.hpp"
#include "verbena/cm/connector.hpp"
#include "verbena/cm/listener.hpp"
#include "verbena/verbs/device_list.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

using bringup::address;

constexpr std::uint16_t default_port = 7471;
constexpr std::chrono::seconds default_timeout{5};
constexpr int connect_retry_ms = 20;

/// Returns the deadline of the negotiation with an accepted peer, which could stop sending.
deadline negotiation_limit(deadline until) noexcept {
  return until.is_never() ? deadline::after(default_timeout) : until;
}

/// Parses an address. `:7471` means all addresses of this host.
result<address> listening_address(std::string_view text) {
  if (!text.starts_with(':')) return bringup::parse_address(text, default_port);
  VERBENA_TRY(auto parsed, bringup::parse_address("localhost" + std::string(text)));
  parsed.host.clear();
  return parsed;
}

result<message_channel> connect_over_tcp(const context& device, const address& to,
                                         const message_channel_options& options, deadline until) {
  VERBENA_TRY(auto stream, bringup::stream::connect(to, until));
  VERBENA_TRY(const auto pd, device.allocate_pd());
  VERBENA_TRY(auto prepared, message_channel::prepare(pd, options));
  return std::move(prepared).connect(stream, until);
}

result<message_channel> connect_with_cm(const address& to, const message_channel_options& options,
                                        deadline until) {
  VERBENA_TRY(auto peer, cm::connector::resolve(to, until));
  VERBENA_TRY(const auto device, peer.context());
  VERBENA_TRY(const auto pd, device.allocate_pd());
  VERBENA_TRY(auto prepared, message_channel::prepare(pd, options));
  return std::move(prepared).connect(peer, until);
}

result<message_channel> accept_over_tcp(const context& device, const address& at,
                                        const message_channel_options& options, deadline until) {
  VERBENA_TRY(auto listening, bringup::listener::open(at));
  VERBENA_TRY(auto stream, listening.accept(until));
  VERBENA_TRY(const auto pd, device.allocate_pd());
  VERBENA_TRY(auto prepared, message_channel::prepare(pd, options));
  return std::move(prepared).connect(stream, negotiation_limit(until));
}

result<message_channel> accept_with_cm(const address& at, const message_channel_options& options,
                                       deadline until) {
  VERBENA_TRY(auto listening, cm::listener::open(at));
  VERBENA_TRY(auto request, listening.accept(until));
  VERBENA_TRY(const auto device, request.context());
  VERBENA_TRY(const auto pd, device.allocate_pd());
  VERBENA_TRY(auto prepared, message_channel::prepare(pd, options));
  return std::move(prepared).accept(std::move(request), negotiation_limit(until));
}

error naming(error why, const char* call, const address& where) {
  return std::move(why).with_diagnosis(std::string(call) + "(\"" + to_string(where) + "\")");
}

}  // namespace

result<message_channel> message_channel::connect(std::string_view address) {
  return connect(address, {}, deadline::after(default_timeout));
}

result<message_channel> message_channel::connect(std::string_view address,
                                                 const message_channel_options& options,
                                                 deadline until) {
  VERBENA_TRY(const auto to, bringup::parse_address(address, default_port));
  VERBENA_TRY(auto device, open_device());
  const bool with_cm = detail::is_iwarp(device);
  std::optional<error> refused;  // more specific than the timeout of the last attempt
  while (true) {
    auto made = with_cm ? connect_with_cm(to, options, until)
                        : connect_over_tcp(device, to, options, until);
    if (made) return made;
    auto why = std::move(made).error();
    if (why.code() == ECONNREFUSED) {
      refused = std::move(why);
    } else if (why.kind() != error_kind::timed_out || !refused) {
      return naming(std::move(why), "message_channel::connect", to);
    }
    if (until.expired()) return naming(*std::move(refused), "message_channel::connect", to);
    ::poll(nullptr, 0, connect_retry_ms);
  }
}

result<message_channel> message_channel::listen_once(std::string_view address) {
  return listen_once(address, {}, deadline::never());
}

result<message_channel> message_channel::listen_once(std::string_view address,
                                                     const message_channel_options& options,
                                                     deadline until) {
  VERBENA_TRY(const auto at, listening_address(address));
  VERBENA_TRY(auto device, open_device());
  auto made = detail::is_iwarp(device) ? accept_with_cm(at, options, until)
                                       : accept_over_tcp(device, at, options, until);
  if (made) return made;
  return naming(std::move(made).error(), "message_channel::listen_once", at);
}

}  // namespace verbena::inline VERBENA_ABI
