// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/cm/simulation/host.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "softdev/core/process_slot.hpp"

namespace verbena::softdev::cm::simulation {
namespace {

// Reserved addresses (RFC 1112): those of no host.
address address_of(std::size_t number) {
  return {.family = address_family::ipv4,
          .bytes = {240, 9, 0, static_cast<std::uint8_t>(number + 1)}};
}

std::uint32_t slot_of(std::size_t number) { return number == 0 ? 3 : large_slots + 5; }

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("simulated host: " + what);
}

}  // namespace

host::host(std::size_t number, network& net, message_sink observer)
    : number_(number),
      network_(net),
      observer_(std::move(observer)),
      manager_(manager::open({.clock = +[]() noexcept { return now; }, .has_thread = false}, this)
                   .value()),
      events_(create_channel().value()),
      listeners_{listen(port_space::tcp), listen(port_space::udp)} {}

endpoint_ptr host::listen(port_space space) {
  endpoint_ptr made = manager_->create(events_, space);
  require(manager_->bind(made, {.family = address_family::ipv4}) == 0, "bind failed");
  require(manager_->listen(made, 0) == 0, "listen failed");
  return made;
}

void host::stop_listening() {
  for (endpoint_ptr& each : listeners_) manager_->destroy(std::exchange(each, nullptr));
}

address host::listener_for(bool is_sidr) const {
  return with_port(address_of(number_), manager_->look(listeners_.at(is_sidr ? 1 : 0)).source.port);
}

endpoint_ptr host::resolve(const address& listener, bool is_sidr) {
  endpoint_ptr made = manager_->create(events_, is_sidr ? port_space::udp : port_space::tcp);
  require(manager_->resolve_address(made, std::nullopt, listener) == 0, "resolve_address failed");
  require(manager_->resolve_route(made) == 0, "resolve_route failed");
  return made;
}

void host::receive(mad_view bytes) {
  manager_->deliver(address_of(number_), address_of(1 - number_), bytes);
}

mad_identity host::identity() const noexcept {
  return {.process_slot = slot_of(number_), .guid = number_ + 1};
}

int host::find_source(const address& /*host*/, address& source) {
  source = with_port(address_of(number_), source.port);
  return 0;
}

void host::send(const address& /*own*/, const address& /*peer*/, mad_view message) noexcept {
  const auto what = parse_mad(message);
  if (!what) return;
  if (observer_) observer_(number_, *what);
  network_.send(1 - number_, *what, message);
}

}  // namespace verbena::softdev::cm::simulation
