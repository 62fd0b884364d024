// SPDX-License-Identifier: MIT
// Measures the limits of the machine between two processes, for comparison with the device:
//   limits ping_pong           one-way nanoseconds of a message of one cache line, two lines in use
//   limits memcpy SIZE         bytes per second into memory that two processes share
//   limits eventfd             one-way nanoseconds of waking the other process by an eventfd
//   limits writev              process_vm_writev(2) of 8 bytes to the other process, per second
//   limits tcp_latency         one-way nanoseconds of 8 bytes over TCP loopback; both sides spin
//   limits tcp_sleeping        the same; both sides sleep
//   limits unix_descriptor     nanoseconds of connecting by an AF_UNIX socket and receiving one
//                              descriptor (SCM_RIGHTS); both sides spin
//   limits tcp_bandwidth SIZE  bytes per second over TCP loopback
// Prints one number.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "bench/local/measure.hpp"
#include "bench/local/process_pair.hpp"
#include "verbena/base/fd.hpp"

namespace {

using bench::fail;

constexpr std::size_t window = 8;  // as many messages as the device's figures rotate through

std::span<std::byte> shared_memory(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) fail("no shared memory");
  return {static_cast<std::byte*>(memory), bytes};
}

struct alignas(128) line {
  std::atomic<std::uint64_t> value{0};
};

void wait_for(const line& from, std::uint64_t value) {
  while (from.value.load(std::memory_order_acquire) != value) bench::spin_hint();
}

int ping_pong() {
  constexpr bench::repetitions times{.chunks = 50, .per_chunk = 2000};
  auto* lines = new (shared_memory(2 * sizeof(line)).data()) line[2];
  const auto pair = bench::process_pair::start();
  pair.meet();
  std::uint64_t round = 0;
  if (pair.is_child()) {
    for (; round < times.total();) {
      wait_for(lines[0], ++round);
      lines[1].value.store(round, std::memory_order_release);
    }
    return 0;
  }
  const double round_trip = bench::median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      lines[0].value.store(++round, std::memory_order_release);
      wait_for(lines[1], round);
    }
  });
  std::printf("%.3f\n", round_trip / 2);
  return pair.finish();
}

int copy(std::size_t size) {
  const bench::repetitions times{.chunks = 50, .per_chunk = (std::size_t{16} << 20) / size + 1};
  const auto target = shared_memory(window * size);
  const std::vector<std::byte> source(size, std::byte{0x5a});
  const auto pair = bench::process_pair::start();
  if (pair.is_child()) {  // maps the memory as a peer does
    for (std::size_t i = 0; i < target.size(); i += 4096) target[i] = std::byte{1};
    pair.meet();
    pair.meet();
    return 0;
  }
  pair.meet();
  std::size_t slot = 0;
  const double ns = bench::median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&target[slot * size], source.data(), size);
      asm volatile("" ::: "memory");
      slot = (slot + 1) % window;
    }
  });
  pair.meet();
  std::printf("%.3f\n", static_cast<double>(size) / ns * 1e9);
  return pair.finish();
}

void send_all(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) fail("TCP: cannot send");
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

void receive_all(int socket, std::span<std::byte> bytes, int flags) {
  while (!bytes.empty()) {
    const ssize_t received = recv(socket, bytes.data(), bytes.size(), flags);
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (received <= 0) fail("TCP: cannot receive");
    bytes = bytes.subspan(static_cast<std::size_t>(received));
  }
}

int eventfd_wake() {
  constexpr bench::repetitions times{.chunks = 20, .per_chunk = 500};
  const std::array<verbena::unique_fd, 2> events{verbena::unique_fd(::eventfd(0, EFD_CLOEXEC)),
                                                 verbena::unique_fd(::eventfd(0, EFD_CLOEXEC))};
  const auto pair = bench::process_pair::start();
  const auto wake = [&](std::size_t which) {
    if (::eventfd_write(events[which].get(), 1) != 0) fail("cannot write an eventfd");
  };
  const auto await = [&](std::size_t which) {
    eventfd_t count = 0;
    if (::eventfd_read(events[which].get(), &count) != 0) fail("cannot read an eventfd");
  };
  if (pair.is_child()) {
    for (std::size_t i = 0; i < times.total(); ++i) {
      await(0);
      wake(1);
    }
    return 0;
  }
  const double round_trip = bench::median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      wake(0);
      await(1);
    }
  });
  std::printf("%.3f\n", round_trip / 2);
  return pair.finish();
}

int writev_rate() {
  constexpr bench::repetitions times{.chunks = 50, .per_chunk = 5000};
  static std::uint64_t target = 0;  // has the same address in both processes
  const auto pair = bench::process_pair::start();
  if (pair.is_child()) {
    const pid_t self = getpid();
    pair.send(std::as_bytes(std::span(&self, 1)));
    pair.meet();
    if (target != times.total()) fail("process_vm_writev: what was written did not arrive");
    return 0;
  }
  pid_t child = 0;
  pair.receive(std::as_writable_bytes(std::span(&child, 1)));
  std::uint64_t value = 0;
  const iovec from{&value, sizeof value};
  const iovec to{&target, sizeof target};
  const double ns = bench::median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      ++value;
      if (process_vm_writev(child, &from, 1, &to, 1, 0) != sizeof value)
        fail("process_vm_writev failed");
    }
  });
  pair.meet();
  std::printf("%.3f\n", 1e9 / ns);
  return pair.finish();
}

// `flags` of recv(2): MSG_DONTWAIT to spin.
int tcp_latency(int flags) {
  constexpr bench::repetitions times{.chunks = 20, .per_chunk = 500};
  const auto pair = bench::process_pair::start();
  const auto socket = pair.connect_over_tcp();
  std::array<std::byte, 8> message{};
  if (pair.is_child()) {
    for (std::size_t i = 0; i < times.total(); ++i) {
      receive_all(socket.get(), message, flags);
      send_all(socket.get(), message);
    }
    return 0;
  }
  const double round_trip = bench::median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      send_all(socket.get(), message);
      receive_all(socket.get(), message, flags);
    }
  });
  std::printf("%.3f\n", round_trip / 2);
  return pair.finish();
}

int tcp_bandwidth(std::size_t size) {
  const bench::repetitions times{.chunks = 20, .per_chunk = (std::size_t{32} << 20) / size};
  const auto pair = bench::process_pair::start();
  const auto socket = pair.connect_over_tcp();
  std::vector<std::byte> message(size);
  std::array<std::byte, 1> token{};
  if (pair.is_child()) {
    for (std::size_t chunk = 0; chunk < times.chunks; ++chunk) {
      for (std::size_t i = 0; i < times.per_chunk; ++i) receive_all(socket.get(), message, 0);
      send_all(socket.get(), token);
    }
    return 0;
  }
  const double ns = bench::median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) send_all(socket.get(), message);
    receive_all(socket.get(), token, 0);
  });
  std::printf("%.3f\n", static_cast<double>(size) / ns * 1e9);
  return pair.finish();
}

// Nanoseconds from socket(2) until the descriptor that the other process sends has come.
int unix_descriptor() {
  constexpr bench::repetitions times{.chunks = 500, .per_chunk = 1};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof(sa_family_t);  // the kernel chooses an abstract name
  const verbena::unique_fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), general, length) != 0 || listen(listener.get(), 16) != 0)
    fail("no listening socket");
  length = sizeof address;
  if (getsockname(listener.get(), general, &length) != 0) fail("getsockname");
  const auto pair = bench::process_pair::start();
  const auto until_done = [](auto&& call) {
    for (;;) {
      const auto done = call();
      if (done >= 0) return done;
      if (errno != EAGAIN && errno != EINTR) fail("AF_UNIX socket");
    }
  };
  std::byte token{};
  iovec data{&token, 1};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  verbena::unique_fd socket_of_pair;
  verbena::unique_fd received;
  const auto accept_and_pass = [&](std::size_t /*count*/) {
    socket_of_pair = verbena::unique_fd(
        until_done([&] { return accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC); }));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (header == nullptr) fail("no room for a descriptor");
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int passed = listener.get();
    std::memcpy(CMSG_DATA(header), &passed, sizeof passed);
    until_done([&] { return sendmsg(socket_of_pair.get(), &message, MSG_NOSIGNAL); });
  };
  const auto connect_and_receive = [&](std::size_t /*count*/) {
    socket_of_pair = verbena::unique_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    until_done([&] { return connect(socket_of_pair.get(), general, length); });
    message.msg_controllen = control.size();
    until_done(
        [&] { return recvmsg(socket_of_pair.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC); });
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    int passed = -1;
    if (header == nullptr) fail("no descriptor came");
    std::memcpy(&passed, CMSG_DATA(header), sizeof passed);
    received = verbena::unique_fd(passed);
  };
  const auto close_all = [&] {
    socket_of_pair.reset();
    received.reset();
    pair.meet();
  };
  if (pair.is_child()) {
    static_cast<void>(bench::median_ns(times, accept_and_pass, close_all));
    return 0;
  }
  std::printf("%.3f\n", bench::median_ns(times, connect_and_receive, close_all));
  return pair.finish();
}

int usage() {
  std::fputs(
      "usage: limits ping_pong | memcpy SIZE | eventfd | writev | tcp_latency |\n"
      "              tcp_sleeping | unix_descriptor | tcp_bandwidth SIZE\n",
      stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  const unsigned long size = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0;
  const bool size_ok = size >= 1 && size <= (1UL << 24);
  if (mode == "ping_pong" && argc == 2) return ping_pong();
  if (mode == "eventfd" && argc == 2) return eventfd_wake();
  if (mode == "writev" && argc == 2) return writev_rate();
  if (mode == "tcp_latency" && argc == 2) return tcp_latency(MSG_DONTWAIT);
  if (mode == "tcp_sleeping" && argc == 2) return tcp_latency(0);
  if (mode == "unix_descriptor" && argc == 2) return unix_descriptor();
  if (mode == "memcpy" && argc == 3 && size_ok) return copy(size);
  if (mode == "tcp_bandwidth" && argc == 3 && size_ok) return tcp_bandwidth(size);
  return usage();
}
