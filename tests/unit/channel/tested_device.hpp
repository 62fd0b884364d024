// SPDX-License-Identifier: MIT
// Connects two channels of one process on the tested device.
#pragma once

#include <future>
#include <optional>
#include <string>
#include <utility>

#include "src/verbs/iwarp.hpp"
#include "tests/unit/cm/served_address.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "tests/unit/verbs/tested_device.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/prepared_channel.hpp"
#include "verbena/cm/connector.hpp"
#include "verbena/cm/event_channel.hpp"
#include "verbena/cm/listener.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::test {

using verbena::detail::is_iwarp;

/// The connection manager of the tested device, and an address of the device.
class tested_manager {
 public:
  tested_manager()
      : from_(tested_device() == "soft0" ? *soft_provider().value()
                                         : *cm::default_provider().value()) {
    const auto channel = cm::event_channel::create(from_).value();
    for (const auto& each : addresses_of_host())
      if (!here_ && is_served(channel, each, tested_device().c_str())) here_ = each;
    if (!here_)
      raise(error::unavailable(0, "rdma_bind_addr", tested_device(), "no address leads to it"));
  }

  [[nodiscard]] std::string host() const { return here_->host(); }
  /// Returns a listener at a free port.
  [[nodiscard]] cm::listener open() const {
    return cm::listener::open({.host = host(), .port = 0}, {.provider = &from_}).value();
  }
  /// Resolves `port` at the address of the tested device.
  [[nodiscard]] result<cm::connector> resolve(std::uint16_t port, deadline until) const {
    return cm::connector::resolve({.host = host(), .port = port}, until,
                                  {.from = here_->with_port(0), .provider = &from_});
  }
  [[nodiscard]] steps<cm::connector> resolve_in_steps(std::uint16_t port, deadline until) const {
    return cm::connector::resolve_in_steps({.host = host(), .port = port}, until,
                                           {.from = here_->with_port(0), .provider = &from_});
  }
  /// Returns the value for tests that cannot continue without it.
  [[nodiscard]] cm::connector find(std::uint16_t port) const {
    return resolve(port, deadline::after(std::chrono::seconds(20))).value();
  }

 private:
  const provider& from_;
  std::optional<cm::socket_address> here_;
};

/// The two ends of a connection.
struct connected_channels {
  channel asking;
  channel answering;
};

/// Connects two ends with the connection manager; either may send first. `pd` belongs to the
/// context of the connector and of the request.
inline connected_channels connect_by_manager(cm::connector& peer, cm::listener& listener,
                                             const protection_domain& pd,
                                             const channel_options& options,
                                             channel_preparation prepare = {}) {
  const cm::connection_options both{.first = cm::first_sender::passive};
  const auto until = deadline::after(std::chrono::seconds(20));
  auto asking = std::async(std::launch::async, [&] {
    return pd.create_channel(options).value().connect(peer, both, until, prepare);
  });
  auto answering = pd.create_channel(options).value().accept(listener.accept(until).value(), both,
                                                             until, prepare);
  return {asking.get().value(), std::move(answering).value()};
}

/// Connects two ends by a handshake.
inline connected_channels connect_by_handshake(const protection_domain& pd,
                                               const channel_options& options) {
  auto first = pd.create_channel(options).value();
  auto second = pd.create_channel(options).value();
  const auto to_first = first.endpoint();
  const auto to_second = second.endpoint();
  const auto told_by_first = first.resume_token();
  auto made = std::move(first).handshake(to_second, second.resume_token()).value();
  return {std::move(made), std::move(second).handshake(to_first, told_by_first).value()};
}

}  // namespace verbena::test
