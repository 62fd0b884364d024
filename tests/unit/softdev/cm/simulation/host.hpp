// SPDX-License-Identifier: MIT
// A simulated host: a connection manager without a thread, two listeners, and a carrier that sends
// to the simulated network.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "softdev/cm/mad_carrier.hpp"
#include "softdev/cm/manager.hpp"
#include "tests/unit/softdev/cm/simulation/network.hpp"

namespace verbena::softdev::cm::simulation {

/// Threads: one thread at a time.
class host final : private mad_carrier {
 public:
  using message_sink = std::function<void(std::size_t from, const mad& what)>;

  /// The hosts of a network are 0 and 1. The peer of host n is host 1 - n. Each message that is
  /// sent is also passed to `observer`.
  host(std::size_t number, network& net, message_sink observer);

  [[nodiscard]] manager& all() noexcept { return *manager_; }
  /// Returns the address of a host's listener for connections or datagram services.
  [[nodiscard]] address listener_for(bool is_sidr) const;
  /// Returns an endpoint with a resolved route to a listener of the peer.
  [[nodiscard]] endpoint_ptr resolve(const address& listener, bool is_sidr);
  /// Receives a message from the network.
  void receive(mad_view bytes);
  /// Takes the oldest event.
  [[nodiscard]] std::optional<event> take() { return manager_->take(*events_); }
  /// Destroys the listeners.
  void stop_listening();

 private:
  [[nodiscard]] mad_identity identity() const noexcept override;
  [[nodiscard]] int open() override { return 0; }
  [[nodiscard]] int find_source(const address& host, address& source) override;
  [[nodiscard]] bool admit(const address& /*own*/, const address& /*peer*/,
                           const mad& /*request*/) noexcept override {
    return true;
  }
  void send(const address& own, const address& peer, mad_view message) noexcept override;
  [[nodiscard]] endpoint_ptr listen(port_space space);

  const std::size_t number_;
  network& network_;
  message_sink observer_;
  std::unique_ptr<manager> manager_;
  channel_ptr events_;
  std::array<endpoint_ptr, 2> listeners_;  ///< for connections and for datagram services
};

}  // namespace verbena::softdev::cm::simulation
