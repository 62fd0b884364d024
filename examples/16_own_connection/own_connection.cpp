// SPDX-License-Identifier: MIT
// RDMA over a connection that the program already has: both sides exchange lines of text over a
// socket, negotiate queue pairs over the same socket, and then exchange text again. The program
// does all I/O itself; the library produces and consumes the bytes.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <verbena/bringup/negotiation.hpp>
#include <verbena/verbena.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace {

namespace bringup = verbena::bringup;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using verbena::rc;

void send_line(int socket, std::string_view line) {
  const std::string text = std::string(line) + "\n";
  if (::send(socket, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    throw std::system_error(errno, std::generic_category(), "send");
}

// Reads one byte at a time: the bytes behind the line belong to the negotiation.
std::string receive_line(int socket) {
  std::string line;
  for (char c = 0; ::recv(socket, &c, 1, 0) == 1 && c != '\n';) line += c;
  return line;
}

// [carry]
// Sends and receives the bytes of the negotiation, until `until`.
void carry(bringup::negotiation<rc>& steps, int socket, clock::time_point until) {
  pollfd entry{.fd = socket, .events = 0, .revents = 0};
  if (steps.bytes_wanted() != 0) entry.events |= POLLIN;
  if (!steps.outgoing().empty()) entry.events |= POLLOUT;
  const auto next = std::min(until, steps.next_advance().value_or(until));
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - clock::now());
  ::poll(&entry, 1, static_cast<int>(std::max(left, 0ms).count()));

  if ((entry.revents & POLLOUT) != 0) {
    const auto out = steps.outgoing();
    const auto count = ::send(socket, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) steps.sent(static_cast<std::size_t>(count));
  }
  if ((entry.revents & (POLLIN | POLLHUP)) != 0 && steps.bytes_wanted() != 0) {
    std::array<std::byte, 512> room;
    const auto count = ::recv(socket, room.data(), std::min(room.size(), steps.bytes_wanted()), 0);
    if (count == 0) steps.peer_closed();
    if (count > 0) steps.received(std::span(room).first(static_cast<std::size_t>(count)));
  }
  if (clock::now() >= until) steps.time_out();
}
// [/carry]

// One side: its queue pair, completion queue and memory.
struct side {
  verbena::context context = verbena::open_device().value();
  verbena::protection_domain pd = context.allocate_pd().value();
  verbena::completion_queue cq = context.create_cq(16).value();
  verbena::memory_region memory = pd.allocate(128, verbena::access::local_write).value();

  // [negotiate]
  verbena::queue_pair<rc> connect(int socket) {
    bringup::negotiation<rc> steps(pd.create_qp<rc>(cq, cq).value());
    const auto until = clock::now() + 10s;
    while (!steps.is_done()) {
      steps.advance(clock::now());
      if (steps.status() == bringup::negotiation_status::waiting_for_receives) {
        steps.qp().post_receive({.id = 1}, memory.slice(0, 64)).value();
        steps.set_ready();
      }
      if (!steps.is_done()) carry(steps, socket, until);
    }
    return std::move(steps).finish().value().queue;
  }
  // [/negotiate]

  // Waits until both the send and the receive have completed.
  void wait_for_both() {
    std::array<verbena::completion, 2> done;
    const auto until = verbena::deadline::after(10s);
    for (std::size_t count = 0; count < 2;) {
      const auto completed = cq.wait(done, until).value();
      for (const auto& each : completed) each.result().value();
      count += completed.size();
    }
  }
};

// Returns the message that arrived by RDMA.
std::string talk(int socket, std::string_view own_message) {
  send_line(socket, "switch to RDMA");
  if (receive_line(socket) != "switch to RDMA") throw std::runtime_error("unexpected text");

  side me;
  auto qp = me.connect(socket);
  std::ranges::copy(verbena::bytes_of(own_message), me.memory.bytes().begin() + 64);
  auto batch = qp.start_send();
  batch.send({.id = 2, .signaled = true}, me.memory.slice(64, own_message.size()));
  batch.submit().value();
  me.wait_for_both();

  send_line(socket, "done");  // the socket carries text again
  if (receive_line(socket) != "done") throw std::runtime_error("unexpected text");
  std::string received;
  for (const auto byte : me.memory.bytes().first(64))
    if (byte != std::byte{}) received += std::to_integer<char>(byte);
  return received;
}

}  // namespace

int main() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) return 1;
  const verbena::unique_fd one(ends[0]);
  const verbena::unique_fd other(ends[1]);
  std::string at_other;
  std::thread peer([&] { at_other = talk(other.get(), "from the peer"); });
  const std::string at_one = talk(one.get(), "hello");
  peer.join();
  std::printf("received \"%s\" and \"%s\"\n", at_one.c_str(), at_other.c_str());
  return at_one == "from the peer" && at_other == "hello" ? 0 : 1;
}
