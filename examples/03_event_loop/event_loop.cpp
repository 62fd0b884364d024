// SPDX-License-Identifier: MIT
// Four connections, each with a separate completion queue, share one completion channel. An epoll
// loop waits for their completion events, together with other descriptors of the program.
#include <sys/epoll.h>
#include <unistd.h>

#include <verbena/verbena.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t connections = 4;
constexpr int messages = 25;  // per connection

// A queue pair connected to itself.
struct connection {
  connection(const verbena::protection_domain& pd, const verbena::completion_channel& channel)
      : cq(pd.context().create_cq(4, {.channel = channel}).value()),
        memory(pd.allocate(64, verbena::access::local_write).value()),
        qp(connect(pd, cq)) {}

  static verbena::queue_pair<verbena::rc> connect(const verbena::protection_domain& pd,
                                                  const verbena::completion_queue& cq) {
    auto prepared = pd.create_qp<verbena::rc>(cq, cq).value();
    const auto self = prepared.endpoint();
    return std::move(prepared).handshake(self).value();
  }

  void send_next() {
    qp.post_receive({}, memory.slice(0, 8)).value();
    auto batch = qp.start_send();
    batch.send({}, memory.slice(8, 8));  // not signaled: the receive completes
    batch.submit().value();
  }

  // Polls all completions and sends the next message for each received one.
  void drain() {
    std::array<verbena::completion, 4> room;
    while (true) {
      const auto found = cq.poll(room).value();
      if (found.empty()) return;
      for (const auto& done : found) {
        done.result().value();
        if (++arrived < messages) send_next();
      }
    }
  }

  verbena::completion_queue cq;
  verbena::memory_region memory;  // must outlive the queue pair that accesses it
  verbena::queue_pair<verbena::rc> qp;
  int arrived = 0;
};

// Creates an epoll instance that waits for `fd`.
verbena::unique_fd watch(int fd) {
  verbena::unique_fd epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event interest{.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll.get() < 0 || epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &interest) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll");
  return epoll;
}

}  // namespace

int main() {
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  auto channel = context.create_completion_channel().value();
  std::vector<connection> all;
  all.reserve(connections);
  for (std::size_t i = 0; i < connections; ++i) all.emplace_back(pd, channel);
  const auto epoll = watch(channel.fd());

  for (connection& each : all) {
    each.cq.request_notification(verbena::notify::any_completion).value();
    each.send_next();
  }
  for (std::size_t finished = 0; finished < connections;) {
    epoll_event ready{};
    if (epoll_wait(epoll.get(), &ready, 1, 10'000) != 1) return 1;
    while (const auto event = channel.poll_event().value())
      for (connection& each : all)
        if (event->is_from(each.cq)) {
          // Arm first, then drain: a completion in between generates another event.
          each.cq.request_notification(verbena::notify::any_completion).value();
          const bool had_finished = each.arrived == messages;
          each.drain();
          if (!had_finished && each.arrived == messages) ++finished;
        }
  }
  std::printf("%zu connections, %d messages each\n", connections, messages);
  return 0;
}
