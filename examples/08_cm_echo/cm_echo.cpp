// SPDX-License-Identifier: MIT
// An echo server with several clients, connected by the connection manager. The server has one
// thread and one epoll(7) instance for events of the connection manager, completions and
// asynchronous events. Each client is a thread with blocking calls. `cm_echo ADDRESS` uses this
// local address.
#include <sys/epoll.h>

#include <verbena/verbena.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "examples/own_address.hpp"

namespace {

using namespace std::chrono_literals;
namespace cm = verbena::cm;

constexpr int clients = 3;
constexpr std::size_t room = 64;

verbena::deadline time_limit() { return verbena::deadline::after(60s); }

// An accepted client. The attributes of its queue pair come from the identifier.
struct accepted_client {
  accepted_client(cm::identifier from, const verbena::protection_domain& pd,
                  const verbena::completion_queue& cq)
      : id(std::move(from)),
        memory(pd.allocate(room, verbena::access::local_write).value()),
        queue(make(pd, cq)) {
    queue.post_receive({}, memory.slice()).value();
  }

  verbena::queue_pair<verbena::rc> make(const verbena::protection_domain& pd,
                                        const verbena::completion_queue& cq) const {
    using state = verbena::queue_pair_state;
    // [by_hand]
    auto prepared = pd.create_qp<verbena::rc>(cq, cq, {.route = {.port = *id.port()}}).value();
    for (const auto next : {state::init, state::ready_to_receive, state::ready_to_send}) {
      const auto changes = id.attributes(next).value();
      if (!changes.mask().empty()) prepared.modify(changes).value();
    }
    // [/by_hand]
    return std::move(prepared).into_queue_pair();
  }

  cm::identifier id;
  verbena::memory_region memory;
  verbena::queue_pair<verbena::rc> queue;
};

class server {
 public:
  explicit server(const std::string& address)
      : events_(cm::event_channel::create().value()),
        listener_(cm::identifier::create(events_).value()) {
    listener_.bind(cm::socket_address::parse(address).value()).value();
    listener_.listen().value();
    device_ = listener_.context().value();
    pd_ = device_->allocate_pd().value();
    completions_ = device_->create_completion_channel().value();
    cq_ = device_->create_cq(64, {.channel = completions_}).value();
    cq_->request_notification(verbena::notify::any_completion).value();
  }

  [[nodiscard]] std::uint16_t port() const { return listener_.local_address()->port(); }

  // Serves until `wanted` clients have disconnected.
  void serve(int wanted) {
    const verbena::unique_fd epoll(epoll_create1(EPOLL_CLOEXEC));
    for (const int fd : {events_.fd(), completions_->fd(), device_->async_fd()}) {
      epoll_event interest{.events = EPOLLIN, .data = {.fd = fd}};
      if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &interest) != 0)
        throw std::system_error(errno, std::generic_category(), "epoll_ctl");
    }
    while (gone_ < wanted) {
      epoll_event ready{};
      if (epoll_wait(epoll.get(), &ready, 1, 60'000) == 0)
        throw std::runtime_error("no event within 60 s");
      // [dispatch]
      while (auto event = events_.poll_event().value()) take(*event);
      while (completions_->poll_event().value()) echo();
      while (const auto event = device_->poll_event().value())
        std::printf("%s\n", to_string(*event).c_str());
      // [/dispatch]
    }
  }

 private:
  void take(cm::event& event) {
    if (event.kind() == cm::event_kind::connect_request) {
      auto made = std::make_unique<accepted_client>(event.take_request().value(), *pd_, *cq_);
      made->id.accept({.queue_pair = made->queue.number()}).value();
      const auto number = made->queue.number();
      clients_.emplace(number, std::move(made));
    } else if (event.kind() == cm::event_kind::disconnected) {
      const auto of = std::ranges::find_if(
          clients_, [&](const auto& each) { return event.concerns(each.second->id); });
      if (of == clients_.end()) return;
      static_cast<void>(of->second->id.disconnect());  // completes the disconnect
      clients_.erase(of);
      ++gone_;
    } else if (is_failure(event.kind())) {
      throw std::runtime_error(to_string(event));
    }
  }

  // Sends each message back, and posts the receive again when the send has completed.
  void echo() {
    cq_->request_notification(verbena::notify::any_completion).value();
    std::array<verbena::completion, 16> found;
    for (auto done = cq_->poll(found).value(); !done.empty(); done = cq_->poll(found).value())
      for (const auto& each : done) {
        const auto of = clients_.find(each.queue_pair());
        if (of == clients_.end() || !each.ok()) continue;  // a client that has disconnected
        accepted_client& to = *of->second;
        if (each.is_receive()) {
          auto batch = to.queue.start_send();
          batch.send({.signaled = true}, to.memory.slice(0, each.byte_length()));
          batch.submit().value();
        } else {
          to.queue.post_receive({}, to.memory.slice()).value();
        }
      }
  }

  cm::event_channel events_;
  cm::identifier listener_;
  std::optional<verbena::context> device_;
  std::optional<verbena::protection_domain> pd_;
  std::optional<verbena::completion_channel> completions_;
  std::optional<verbena::completion_queue> cq_;
  std::map<verbena::queue_pair_number, std::unique_ptr<accepted_client>> clients_;
  int gone_ = 0;
};

// Connects, sends a word, and returns the reply.
std::string ask(const std::string& address, std::uint16_t port, std::string_view word) {
  // [connect]
  auto peer = cm::connector::resolve({.host = address, .port = port}, time_limit()).value();
  const auto device = peer.context().value();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(16).value();
  auto link = peer.connect(peer.create_qp(pd, cq, cq).value(), {}, time_limit()).value();
  // [/connect]
  const auto memory = pd.allocate(2 * room, verbena::access::local_write).value();
  std::ranges::copy(std::as_bytes(std::span(word)), memory.bytes().begin());
  link.qp().post_receive({}, memory.slice(room, room)).value();
  auto batch = link.qp().start_send();
  batch.send({.signaled = true}, memory.slice(0, word.size()));
  batch.submit().value();
  std::array<verbena::completion, 2> found;
  const auto until = time_limit();
  for (std::size_t pending = 2; pending > 0;)
    for (const auto& done : cq.wait(found, until).value()) {
      done.result().value();
      --pending;
    }
  std::string back;
  for (const std::byte each : memory.bytes().subspan(room, word.size()))
    back += static_cast<char>(each);
  link.disconnect().value();
  return back;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string address = argc > 1 ? argv[1] : own_address();
  server server(address);
  std::vector<std::future<std::string>> answers;
  answers.reserve(clients);
  for (int i = 0; i < clients; ++i)
    answers.push_back(std::async(std::launch::async, ask, address, server.port(),
                                 "hello from client " + std::to_string(i)));
  server.serve(clients);
  bool whole = true;
  for (int i = 0; i < clients; ++i) {
    const auto back = answers[static_cast<std::size_t>(i)].get();
    std::printf("%s\n", back.c_str());
    whole = whole && back == "hello from client " + std::to_string(i);
  }
  return whole ? 0 : 1;
}
