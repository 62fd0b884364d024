// SPDX-License-Identifier: MIT
#include "verbena/cm/listener.hpp"

#include <cerrno>
#include <memory>
#include <optional>
#include <vector>

#include "src/bringup/socket.hpp"
#include "src/cm/bring_up.hpp"
#include "src/cm/ready_indication.hpp"

namespace verbena::inline VERBENA_ABI::cm {
namespace {

constexpr detail::step until_established = {
    .call = "rdma_accept",
    .wanted = event_kind::established,
    .or_else = event_kind::established,
    .on_timeout =
        "the peer did not confirm the connection in time; check that the peer's process "
        "runs and that UDP port 4791 is open in both directions"};

result<void> set_up(identifier& id, const socket_address& at, const listener_options& options) {
  if (options.type_of_service) VERBENA_TRY_VOID(id.set_type_of_service(*options.type_of_service));
  if (options.reuse_address) VERBENA_TRY_VOID(id.allow_address_reuse());
  if (options.ipv6_only) VERBENA_TRY_VOID(id.limit_to_address_family());
  VERBENA_TRY_VOID(id.bind(at));
  return id.listen(options.backlog);
}

// Returns the addresses to listen at, best first. Without a host, this is the IPv4 wildcard: on
// iWARP, a listener at the IPv6 wildcard does not accept IPv4 connections.
result<std::vector<socket_address>> addresses_of(const bringup::address& at) {
  if (at.host.empty()) return std::vector{socket_address::any_ipv4(at.port)};
  VERBENA_TRY(const auto found, bringup::detail::resolve(
                                    at, bringup::detail::resolve_for::listening, deadline::never())
                                    .wait());
  std::vector<socket_address> addresses;
  addresses.reserve(found.size());
  for (const auto& each : found) {
    VERBENA_TRY(const auto address, socket_address::from_native(*each.get()));
    addresses.push_back(address);
  }
  return addresses;
}

}  // namespace

connection_request::connection_request(event_channel channel, identifier id,
                                       const connection_parameters& requested,
                                       std::vector<std::byte> said) noexcept
    : pending_connection(std::move(channel), std::move(id)),
      requested_(requested),
      said_(std::move(said)) {}

connection_request::connection_request(connection_request&&) noexcept = default;

connection_request& connection_request::operator=(connection_request&& other) noexcept {
  if (this == &other) return *this;
  drop();
  id_ = std::move(other.id_);
  channel_ = std::move(other.channel_);
  requested_ = other.requested_;
  said_ = std::move(other.said_);
  open_ = other.open_;
  return *this;
}

connection_request::~connection_request() { drop(); }

void connection_request::drop() noexcept {
  if (!open_ || !id_.is_valid()) return;
  open_ = false;
  static_cast<void>(id_.reject());  // if this fails, the peer has ended
}

result<connection> connection_request::accept(prepared_queue_pair<rc>&& prepared,
                                              const connection_options& options, deadline until,
                                              receive_poster post_receives) && {
  return accept(std::move(*this), std::move(prepared), options, until, post_receives).wait();
}

steps<connection> connection_request::accept_in_steps(prepared_queue_pair<rc> prepared,
                                                      const connection_options& options,
                                                      deadline until,
                                                      kept_receive_poster post_receives) && {
  return accept(std::move(*this), std::move(prepared), options, until, std::move(post_receives));
}

steps<connection> connection_request::accept(connection_request request,
                                             prepared_queue_pair<rc> prepared,
                                             connection_options options, deadline until,
                                             kept_receive_poster post_receives) {
  // If a step fails from here on, the request is rejected and the queue pair destroyed.
  connection_request self = std::move(request);
  auto taken = std::move(prepared);
  const bool waits = options.first == first_sender::passive && self.id_.is_iwarp();
  VERBENA_CO_TRY(auto parameters,
                 detail::parameters_for(self.id_, taken, options, &self.requested_));
  VERBENA_CO_TRY_VOID(
      detail::initialise(self.id_, taken, waits ? access::remote_write : access_flags()));
  VERBENA_CO_TRY_VOID(detail::make_ready(self.id_, taken, parameters));
  auto queue = std::move(taken).into_queue_pair();
  if (post_receives) VERBENA_CO_TRY_VOID(post_receives(queue));
  std::optional<detail::pending_ready_indication> awaited;
  std::vector<std::byte> answer;
  if (waits) {
    VERBENA_CO_TRY(awaited, detail::pending_ready_indication::create(queue));
    answer = awaited->announce(options.private_data);
    parameters.private_data = answer;
  }
  VERBENA_CO_TRY_VOID(self.id_.accept(parameters));
  self.open_ = false;
  VERBENA_CO_TRY_DISCARD(co_await detail::wait(self.channel_, self.id_, until_established, until));
  if (awaited) VERBENA_CO_TRY_VOID(co_await awaited->wait(self.channel_, self.id_, until));
  connection made(self.channel_, self.id_, std::move(queue), std::move(self.said_));
  if (awaited)
    made.ready_word_ = std::make_shared<memory_region>(std::move(*awaited).into_region());
  co_return std::move(made);
}

result<void> connection_request::reject(std::span<const std::byte> private_data) && {
  connection_request self = std::move(*this);
  VERBENA_TRY_VOID(self.id_.reject(private_data));
  self.open_ = false;
  return {};
}

listener::listener(event_channel channel, identifier id)
    : channel_(std::move(channel)), id_(std::move(id)), name_(id_.name()) {}

result<listener> listener::open(const bringup::address& at, const listener_options& options) {
  VERBENA_TRY_VOID(detail::check_space(options.space, "listener::open"));
  VERBENA_TRY(const auto addresses, addresses_of(at));
  VERBENA_TRY(auto channel, detail::open_channel(options.provider));
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    VERBENA_TRY(auto id, identifier::create(channel, options.space));
    auto listening = set_up(id, addresses[i], options);
    if (listening) return listener(std::move(channel), std::move(id));
    if (i + 1 == addresses.size()) return std::move(listening).error();
  }
  return error::unavailable(EADDRNOTAVAIL, "listener::open", at.host,
                            "the host name has no address; check the name, or give an IP address");
}

result<connection_request> listener::accept(deadline until) {
  for (;;) {
    VERBENA_TRY(auto taken, channel_.wait_event(until));
    if (!taken) return timed_out();
    VERBENA_TRY(auto request, request_of(*taken));
    if (request) return *std::move(request);
  }
}

steps<connection_request> listener::accept_in_steps(deadline until) {
  for (;;) {
    VERBENA_CO_TRY(auto taken, co_await detail::next_event(channel_, until));
    if (!taken) co_return timed_out();
    VERBENA_CO_TRY(auto request, request_of(*taken));
    if (request) co_return *std::move(request);
  }
}

error listener::timed_out() const {
  return error::timed_out(
      "listener::accept", name_,
      "no connection request arrived in time; does the peer connect to this address and port, "
      "and is UDP port 4791 open?");
}

result<std::optional<connection_request>> listener::request_of(event& taken) const {
  if (taken.kind() == event_kind::device_removal) return taken.failure("listener::accept");
  if (taken.kind() != event_kind::connect_request) return std::optional<connection_request>();
  // The destructor of an event rejects a request that was not taken.
  VERBENA_TRY(auto own, event_channel::create(channel_.provider()));
  VERBENA_TRY(auto id, taken.take_request());
  auto asked = taken.connection().value_or(connection_parameters{});
  asked.private_data = {};
  const auto said = taken.private_data();
  connection_request request(std::move(own), std::move(id), asked, {said.begin(), said.end()});
  VERBENA_TRY_VOID(request.id().migrate(request.channel_));
  return std::optional(std::move(request));
}

std::optional<socket_address> listener::local_address() const { return id_.local_address(); }

std::uint16_t listener::port() const {
  const auto address = id_.local_address();
  return address ? address->port() : 0;
}

}  // namespace verbena::inline VERBENA_ABI::cm
