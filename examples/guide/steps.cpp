// SPDX-License-Identifier: MIT
// Connecting, and operations of groups, without blocking: in an epoll loop, and in coroutines.
#include <sys/epoll.h>

#include <verbena/async.hpp>
#include <verbena/net.hpp>
#include <verbena/verbena.hpp>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "examples/guide/snippets.hpp"
#include "examples/own_address.hpp"

namespace guide {
namespace {

using namespace std::chrono_literals;
namespace async = verbena::async;

constexpr verbena::channel_options small_queues{.queues = {.max_send_wr = 4, .max_recv_wr = 4}};

// [complete]
// Accepts one peer over TCP and connects a channel.
async::task<verbena::result<async::channel>> accept_channel(async::engine& engine,
                                                            const verbena::protection_domain& pd,
                                                            verbena::bringup::listener& from,
                                                            verbena::deadline until) {
  auto peer = co_await engine.complete(from.accept_in_steps(until));
  if (!peer) co_return std::move(peer).error();
  auto prepared = pd.create_channel(engine.hub(), small_queues);
  if (!prepared) co_return std::move(prepared).error();
  auto connected = co_await engine.complete((*std::move(prepared)).connect_in_steps(*peer, until));
  if (!connected) co_return std::move(connected).error();
  co_return async::channel(engine, *std::move(connected));
}
// [/complete]

// [managed]
// Accepts one peer by the connection manager, whose context the engine uses.
async::task<verbena::result<async::channel>> accept_managed(async::engine& engine,
                                                            const verbena::protection_domain& pd,
                                                            verbena::cm::listener& from,
                                                            verbena::deadline until) {
  auto request = co_await engine.complete(from.accept_in_steps(until));
  if (!request) co_return std::move(request).error();
  auto prepared = pd.create_channel(engine.hub(), small_queues);
  if (!prepared) co_return std::move(prepared).error();
  auto accepted = (*std::move(prepared)).accept_in_steps(*std::move(request), {}, until);
  auto connected = co_await engine.complete(std::move(accepted));
  if (!connected) co_return std::move(connected).error();
  co_return async::channel(engine, *std::move(connected));
}
// Connects to a peer by the connection manager. The engine belongs to the device that `how.from` or
// the route selects.
async::task<verbena::result<async::channel>> connect_managed(async::engine& engine,
                                                             const verbena::protection_domain& pd,
                                                             verbena::bringup::address to,
                                                             verbena::cm::connector_options how,
                                                             verbena::deadline until) {
  auto peer = co_await engine.complete(verbena::cm::connector::resolve_in_steps(to, until, how));
  if (!peer) co_return std::move(peer).error();
  auto prepared = pd.create_channel(engine.hub(), small_queues);
  if (!prepared) co_return std::move(prepared).error();
  auto connected =
      co_await engine.complete((*std::move(prepared)).connect_in_steps(*peer, {}, until));
  if (!connected) co_return std::move(connected).error();
  co_return async::channel(engine, *std::move(connected));
}
// [/managed]

// [epoll]
// Performs an operation in an epoll loop. An operation can wait for another descriptor after each
// step.
template <class T>
verbena::result<T> perform(int epoll, verbena::steps<T> operation) {
  while (true) {
    if (auto ended = operation.progress()) return *std::move(ended);
    epoll_event wanted{.events = static_cast<std::uint32_t>(operation.events()), .data = {}};
    if (operation.fd() >= 0 && ::epoll_ctl(epoll, EPOLL_CTL_ADD, operation.fd(), &wanted) != 0)
      throw std::system_error(errno, std::generic_category(), "epoll_ctl");
    epoll_event ready{};
    // A program handles the events of its other descriptors here.
    ::epoll_wait(epoll, &ready, 1, operation.next_deadline().poll_timeout_ms());
    if (operation.fd() >= 0) ::epoll_ctl(epoll, EPOLL_CTL_DEL, operation.fd(), nullptr);
  }
}
// [/epoll]

// Connects two sides by the connection manager, on one thread.
void connect_by_manager() {
  auto listener = verbena::cm::listener::open({.host = own_address(), .port = 0}).value();
  const auto context = listener.id().context().value();
  const auto pd = context.allocate_pd().value();
  auto engine = async::engine::create(context).value();
  const auto until = verbena::deadline::after(30s);
  bool is_accepted = false;
  bool is_connected = false;
  const auto accept = [&]() -> async::task<void> {
    const auto made = co_await accept_managed(engine, pd, listener, until);
    if (!made) verbena::print_error(made.error());
    is_accepted = made.has_value();
  };
  const auto connect = [&]() -> async::task<void> {
    const verbena::bringup::address to{.host = own_address(), .port = listener.port()};
    const verbena::cm::connector_options how{
        .from = verbena::cm::socket_address::parse(to.host).value()};
    const auto made = co_await connect_managed(engine, pd, to, how, until);
    if (!made) verbena::print_error(made.error());
    is_connected = made.has_value();
  };
  const auto both = [&]() -> async::task<void> {
    async::scope running;
    running.spawn(accept());
    running.spawn(connect());
    co_await running.join();
  };
  engine.run(both());
  require(is_accepted && is_connected);
}

// [group]
// Adds up the gradients of all ranks, then waits for all ranks.
async::task<verbena::result<void>> add_up(async::engine& engine, const verbena::net::group& group,
                                          const verbena::memory_region& gradients,
                                          verbena::deadline until) {
  const auto steps = group.in_steps();
  const auto added = co_await engine.complete(
      steps.all_reduce<double>(verbena::sink(gradients), std::plus<>(), until));
  if (!added) co_return added.error();
  co_return co_await engine.complete(steps.barrier(until));
}
// [/group]

// Adds up numbers of a rank of two.
void add_up_as(std::uint32_t rank, const verbena::bringup::address& store) {
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  const auto until = verbena::deadline::after(30s);
  const verbena::net::membership who{
      .rank = rank, .size = 2, .store = store, .host = verbena::net::store_host::separate};
  auto group = verbena::net::group::join(pd, who, until).value();
  const auto gradients = pd.allocate(sizeof(double), verbena::access::local_write).value();
  auto& value = *reinterpret_cast<double*>(gradients.bytes().data());
  value = 1.0 + rank;
  auto engine = async::engine::create(context).value();
  engine.run(add_up(engine, group, gradients, until)).value();
  require(value == 3.0);
}

}  // namespace

void groups_in_steps() {
  const auto store = verbena::net::store::open({.host = "127.0.0.1"}).value();
  std::thread other(add_up_as, 1U, store.local_address());
  add_up_as(0, store.local_address());
  other.join();
}

void connections_in_steps() {
  connect_by_manager();
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  auto engine = async::engine::create(context).value();
  const auto until = verbena::deadline::after(30s);
  auto listener = verbena::bringup::listener::open({.host = "127.0.0.1", .port = 0}).value();
  std::optional<verbena::channel> client;
  std::thread connecting([&, port = listener.port()] {
    const verbena::unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
    const verbena::bringup::address server{.host = "127.0.0.1", .port = port};
    // [connect]
    auto peer =
        perform(epoll.get(), verbena::bringup::stream::connect_in_steps(server, until)).value();
    auto prepared = pd.create_channel(small_queues).value();
    client = perform(epoll.get(), std::move(prepared).connect_in_steps(peer, until)).value();
    // [/connect]
  });
  const auto accepted = engine.run(accept_channel(engine, pd, listener, until));
  connecting.join();
  require(accepted.has_value() && client.has_value());
}

}  // namespace guide
