// SPDX-License-Identifier: MIT
// An echo server in an epoll loop of the program, which also waits for a timer. When the timer
// expires, the server shuts down: it accepts no more clients, notifies its clients, gives them time
// to leave, and cancels the others.
//   epoll_loop [--clients N] [--host ADDRESS]
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <verbena/async.hpp>
#include <verbena/verbena.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <list>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "examples/echo_clients.hpp"

namespace {

using namespace std::chrono_literals;
namespace async = verbena::async;
using verbena::deadline;

/// Echoes messages until shut_down().
class server {
 public:
  server(async::engine& on, async::message_listener listener)
      : on_(on), listener_(std::move(listener)) {
    running_.spawn(accept());
  }
  // [shutdown]
  // Stops accepting, sends a notice to the clients, waits for them for a limited time, and cancels
  // the others.
  async::task<void> shut_down(std::chrono::milliseconds grace) {
    listener_.close();  // ends accept()
    for (auto& each : channels_)
      static_cast<void>(each.get().try_send(std::span<const std::byte>()));
    const auto until = deadline::after(grace);
    while (running_.running() != 0 && !until.expired())
      co_await on_.wait_until(deadline::after(1ms));
    cancelled_ = channels_.size();
    channels_.clear();  // ends the receives of the clients that have not left
    co_await running_.join();
  }
  // [/shutdown]
  [[nodiscard]] std::size_t served() const { return served_; }
  [[nodiscard]] std::size_t cancelled() const { return cancelled_; }

 private:
  using place = std::list<async::message_channel>::iterator;

  async::task<void> accept() {
    bool is_open = true;
    while (is_open) {
      auto client = co_await listener_.accept();
      is_open = client.has_value();
      if (client) running_.spawn(echo(channels_.insert(channels_.end(), *std::move(client))));
    }
  }
  async::task<void> echo(place at) {
    ++served_;
    bool has_left = false;
    while (const auto message = co_await at->receive()) {
      has_left = message->length() == 0;
      if (has_left || !co_await at->send(message->bytes())) break;
    }
    if (has_left) channels_.erase(at);
  }

  async::engine& on_;
  async::message_listener listener_;
  std::list<async::message_channel> channels_;
  std::size_t served_ = 0;
  std::size_t cancelled_ = 0;
  async::scope running_;
};

// [loop]
// Waits for the engine and for a timer, until the server has shut down.
void loop(async::engine& engine, server& of, int timer) {
  const verbena::unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  for (const int each : {engine.fd(), timer}) {
    epoll_event readable{.events = EPOLLIN, .data = {.fd = each}};
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, each, &readable) != 0) return;
  }
  async::scope closing;
  bool is_closing = false;
  while (!is_closing || closing.running() != 0) {
    if (engine.poll() != 0 || !engine.arm()) continue;  // true: nothing is left to do
    std::array<epoll_event, 2> events;
    const int count =
        ::epoll_wait(epoll.get(), events.data(), 2, engine.next_deadline().poll_timeout_ms());
    for (int i = 0; i < count; ++i) {
      if (events.at(static_cast<std::size_t>(i)).data.fd != timer || is_closing) continue;
      is_closing = true;
      ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, timer, nullptr);
      closing.spawn(of.shut_down(50ms));
    }
  }
}
// [/loop]

void expire_soon(int timer) {
  const itimerspec soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = 1'000'000}};
  if (::timerfd_settime(timer, 0, &soon, nullptr) != 0) std::perror("timerfd_settime");
}

}  // namespace

int main(int argc, char** argv) {
  const examples::echo_settings settings = examples::settings_of(argc, argv, 20);
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  auto engine = async::engine::create(context).value();
  auto listener = async::listen(engine, pd, {.host = settings.host, .port = 0},
                                {.channels = examples::small_messages})
                      .value();
  const verbena::bringup::address address{.host = settings.host, .port = listener.port()};
  server echo(engine, std::move(listener));
  const verbena::unique_fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));

  // Some clients leave; one stays until the server cancels it.
  std::uint64_t correct = 0;
  bool is_notified = false;
  std::thread clients([&] {
    correct = examples::echo_clients(context, pd, address, settings.clients).run();
    auto own = async::engine::create(context).value();
    is_notified = own.run([](async::engine& on, const verbena::protection_domain& with,
                             verbena::bringup::address to, int at) -> async::task<bool> {
      auto made = co_await async::connect(on, with, to, examples::time_limit(),
                                          {.channel = examples::small_messages});
      if (!made) co_return false;
      // The echo shows that the server has accepted this client.
      constexpr std::array<std::byte, 1> text{};
      if (!co_await made->send(text, examples::time_limit())) co_return false;
      const auto echoed = co_await made->receive(examples::time_limit());
      if (!echoed) co_return false;
      expire_soon(at);
      const auto message = co_await made->receive(examples::time_limit());
      co_return message && message->length() == 0;  // the notice, after which it does not leave
    }(own, pd, address, timer.get()));
    expire_soon(timer.get());  // also if the client has failed
  });
  loop(engine, echo, timer.get());
  clients.join();
  std::printf("%zu clients served, %zu of them cancelled\n", echo.served(), echo.cancelled());
  return echo.served() == settings.clients + 1 && echo.cancelled() == 1 && is_notified &&
                 correct == settings.clients * examples::messages_per_client
             ? 0
             : 1;
}
