// SPDX-License-Identifier: MIT
// One thread serves several message channels by one epoll(7) instance.
#include <sys/epoll.h>

#include <verbena/verbena.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "examples/guide/snippets.hpp"

namespace guide {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t client_count = 8;
constexpr verbena::message_channel_options small{.message_bytes = 256,
                                                 .queues = {.max_send_wr = 4, .max_recv_wr = 4}};

verbena::message_channel connect(verbena::prepared_message_channel&& prepared,
                                 const verbena::message_endpoint& to) {
  return std::move(prepared).handshake(to).value();
}

verbena::unique_fd epoll_of(int fd) {
  verbena::unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event readable{.events = EPOLLIN, .data = {.fd = fd}};
  if (!epoll || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &readable) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll");
  return epoll;
}

// [echo]
struct client {
  verbena::message_channel channel;
  std::optional<verbena::received_message> reply;  // not sent yet
};

// Returns messages to their sender while it has room for them. Returns their number.
std::size_t echo(client& to) {
  for (std::size_t count = 0;; ++count) {
    if (!to.reply) to.reply = to.channel.try_receive();
    // Without room, a later call sends the reply. A channel that has failed sends nothing.
    if (!to.reply || !to.channel.try_send(to.reply->bytes())) return count;
    to.reply.reset();
  }
}
// [/echo]

// [serve]
// Serves the clients until `count` messages were returned.
void serve(const verbena::completion_hub& hub, std::vector<client>& clients, std::size_t count) {
  const auto epoll = epoll_of(hub.fd());
  while (count > 0) {
    if (hub.arm().value()) {  // nothing was delivered since the last look
      epoll_event readable{};
      ::epoll_wait(epoll.get(), &readable, 1, hub.next_deadline().poll_timeout_ms());
    }
    std::array<std::uint64_t, 16> ready{};  // tags of channels for which something has changed
    const std::size_t found = hub.next_ready(ready).value();
    for (const std::uint64_t tag : std::span(ready).first(found)) count -= echo(clients[tag]);
  }
}
// [/serve]

// [tags]
// Reads the pages through any of the channels, each read with the index of its page as tag.
void read_all(const verbena::completion_hub& hub, std::vector<verbena::channel>& channels,
              std::span<const verbena::sink> pages, const verbena::remote_region& table) {
  std::size_t started = 0;
  std::size_t ended = 0;
  while (ended < pages.size()) {
    for (auto& each : channels) {
      while (started < pages.size()) {
        const auto refused =
            each.start_read(started, pages.subspan(started, 1), table.slice(started * 64, 64));
        if (refused && refused->refusal() != verbena::refusal::queue_full) refused->value();
        if (refused) break;  // until an operation of the channel has ended
        ++started;
      }
    }
    hub.wait(verbena::deadline::after(10s)).value();
    std::array<verbena::completed_operation, 16> some;
    const std::size_t count = hub.next_completed(some).value();
    for (const auto& each : std::span(some).first(count)) require(each.result.value() == 64);
    ended += count;
  }
}
// [/tags]

}  // namespace

void operations_with_tags() {
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  const auto hub = verbena::completion_hub::create(context, 64, {.events = true}).value();
  const verbena::channel_options options{.queues = {.max_send_wr = 4, .max_recv_wr = 4},
                                         .access = verbena::access::remote_read};
  std::vector<verbena::channel> channels;
  for (int i = 0; i < 4; ++i) {
    auto prepared = pd.create_channel(hub, options).value();
    const auto self = prepared.endpoint();
    channels.push_back(std::move(prepared).handshake(self).value());
  }
  const auto table = pd.allocate(64 * 64, verbena::access::remote_read).value();
  auto memory = pd.allocate(64 * 64, verbena::access::local_write).value();
  std::vector<verbena::sink> pages;
  for (std::size_t i = 0; i < 64; ++i) {
    table.bytes()[i * 64] = static_cast<std::byte>(i);
    pages.emplace_back(memory, i * 64, 64);
  }
  read_all(hub, channels, pages, table.remote());
  for (std::size_t i = 0; i < 64; ++i) require(memory.bytes()[i * 64] == static_cast<std::byte>(i));
}

void one_thread_for_many_channels() {
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  // [hub]
  const std::uint32_t entries = 4 + 4 + verbena::message_channel::own_operations;
  const auto hub =
      verbena::completion_hub::create(context, client_count * entries, {.events = true}).value();
  // [/hub]
  std::vector<client> served;
  std::vector<verbena::message_channel> peers;
  for (std::uint32_t i = 0; i < client_count; ++i) {
    // [prepare]
    auto prepared = verbena::message_channel::prepare(pd, hub, small).value();
    // [/prepare]
    auto peer = verbena::message_channel::prepare(pd, small).value();
    const auto here = prepared.endpoint();
    served.push_back({connect(std::move(prepared), peer.endpoint()), {}});
    // [tag]
    served.back().channel.set_tag(i);
    // [/tag]
    peers.push_back(connect(std::move(peer), here));
  }
  std::thread all_clients([&] {
    for (auto& each : peers) each.send(verbena::bytes_of("hello")).value();
    for (auto& each : peers)
      require(each.receive(verbena::deadline::after(10s)).value().text() == "hello");
  });
  serve(hub, served, client_count);
  all_clients.join();
}

}  // namespace guide
