// SPDX-License-Identifier: MIT
#include "bench/local/process_pair.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace bench {
namespace {

// Neither side spins without limit after the other side exited.
constexpr unsigned most_seconds = 120;

void pin_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(processor), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) fail("cannot pin the process to a processor");
}

std::array<int, 2> two_processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) fail("cannot tell the processors");
  std::array<int, 2> found{};
  std::size_t count = 0;
  for (int i = 0; i < CPU_SETSIZE && count < found.size(); ++i)
    if (CPU_ISSET(static_cast<unsigned>(i), &allowed)) found[count++] = i;
  if (count < found.size()) fail("two processes that spin need two processors");
  return found;
}

}  // namespace

void fail(const char* what) {
  std::fprintf(stderr, "bench: %s\n", what);
  std::exit(1);
}

process_pair process_pair::start() {
  const auto processors = two_processors();
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("no socket pair");
  const int child = fork();
  if (child < 0) fail("cannot fork");
  verbena::unique_fd mine(ends[child == 0 ? 1 : 0]);
  verbena::unique_fd(ends[child == 0 ? 0 : 1]).reset();
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(most_seconds);
  pin_to(processors[child == 0 ? 1 : 0]);
  return {child, std::move(mine)};
}

void process_pair::send(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) fail("the other process is gone");
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

void process_pair::receive_with(int flags, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t received = ::recv(socket_.get(), bytes.data(), bytes.size(), flags);
    if (received < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (received <= 0) fail("the other process is gone");
    bytes = bytes.subspan(static_cast<std::size_t>(received));
  }
}

void process_pair::receive(std::span<std::byte> bytes) const { receive_with(0, bytes); }

void process_pair::receive_spinning(std::span<std::byte> bytes) const {
  receive_with(MSG_DONTWAIT, bytes);
}

void process_pair::meet() const {
  std::array<std::byte, 1> token{};
  send(token);
  receive(token);
}

verbena::unique_fd process_pair::connect_over_tcp() const {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  verbena::unique_fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (is_child()) {
    if (::bind(socket.get(), generic, size) != 0 || ::listen(socket.get(), 1) != 0 ||
        getsockname(socket.get(), generic, &size) != 0)
      fail("cannot listen on the loopback interface");
    send(std::as_bytes(std::span(&address.sin_port, 1)));
    socket.reset(accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  } else {
    receive(std::as_writable_bytes(std::span(&address.sin_port, 1)));
    if (::connect(socket.get(), generic, size) != 0) fail("cannot connect over loopback");
  }
  const int yes = 1;
  if (!socket || setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0)
    fail("no connection over loopback");
  return socket;
}

int process_pair::finish() const {
  if (is_child()) return 0;
  int status = 0;
  while (waitpid(child_, &status, 0) < 0)
    if (errno != EINTR) fail("cannot wait for the other process");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("the other process failed");
  return 0;
}

}  // namespace bench
