// SPDX-License-Identifier: MIT
// Connecting without blocking: in an epoll loop, and in coroutines.
#include <sys/epoll.h>

#include <verbena/async.hpp>
#include <verbena/verbena.hpp>

#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "examples/guide/snippets.hpp"

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

}  // namespace

void connections_in_steps() {
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
