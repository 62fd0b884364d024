// SPDX-License-Identifier: MIT
#include "bench/wire/hosts.hpp"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

namespace bench {
namespace {

constexpr std::uint32_t parent_address = 0x0a09'0001;  // 10.9.0.1
constexpr std::uint32_t child_address = 0x0a09'0002;   // 10.9.0.2

void write_file(const char* path, const std::string& content) {
  const verbena::unique_fd file(::open(path, O_WRONLY | O_CLOEXEC));
  if (!file || ::write(file.get(), content.data(), content.size()) < 0) fail(path);
}

// A new network namespace; without the privilege for one, in a new user namespace. Returns false if
// the host permits none.
bool enter_namespace() {
  const std::string user = std::to_string(::geteuid());
  const std::string group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWNET) == 0) return true;
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  write_file("/proc/self/uid_map", "0 " + user + " 1");
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/gid_map", "0 " + group + " 1");
  return true;
}

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) fail(command.c_str());
}

sockaddr* generic(sockaddr_in& which) noexcept { return reinterpret_cast<sockaddr*>(&which); }

}  // namespace

hosts hosts::start(medium network) {
  ::setenv("VERBENA_SOFTDEV", "only", 1);
  ::setenv("VERBENA_SOFTDEV_WIRE", "on", 1);
  ::setenv("VERBENA_SOFTDEV_PATH", "wire", 1);
  // Loopback also has a namespace if possible: other interfaces could limit the path MTU.
  const bool separate = enter_namespace();
  if (!separate && network == medium::veth) fail("cannot make a network namespace");
  if (separate) run("ip link set lo up");
  hosts made(process_pair::start(), network);
  if (network == medium::veth) made.make_veth_pair();
  return made;
}

// The interfaces have room for a path MTU of 4096.
void hosts::make_veth_pair() const {
  if (is_child()) {
    if (::unshare(CLONE_NEWNET) != 0) fail("cannot make a second network namespace");
    const pid_t self = ::getpid();
    pair_.send(std::as_bytes(std::span(&self, 1)));
    pair_.meet();
    run("ip address add 10.9.0.2/24 dev bench1 && ip link set bench1 up && ip link set lo up");
  } else {
    pid_t child = 0;
    pair_.receive(std::as_writable_bytes(std::span(&child, 1)));
    run("ip link add bench0 mtu 9000 type veth peer name bench1 mtu 9000 netns " +
        std::to_string(child) +
        " && ip address add 10.9.0.1/24 dev bench0 && ip link set bench0 up");
    pair_.meet();
  }
  pair_.meet();
}

in_addr hosts::address(bool child) const noexcept {
  if (network_ == medium::loopback) return {htonl(INADDR_LOOPBACK)};
  return {htonl(child ? child_address : parent_address)};
}

// Binds a socket to a free port, and returns the name of the other process's socket.
sockaddr_in hosts::exchange(const verbena::unique_fd& socket) const {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr = own();
  socklen_t size = sizeof name;
  if (!socket || ::bind(socket.get(), generic(name), size) != 0 ||
      ::getsockname(socket.get(), generic(name), &size) != 0)
    fail("cannot bind a socket");
  pair_.send(std::as_bytes(std::span(&name.sin_port, 1)));
  pair_.receive(std::as_writable_bytes(std::span(&name.sin_port, 1)));
  name.sin_addr = peer();
  return name;
}

verbena::unique_fd hosts::connect_over_udp() const {
  verbena::unique_fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in other = exchange(socket);
  constexpr int room = 4 << 20;
  for (const auto& [forced, ordinary] :
       {std::pair(SO_RCVBUFFORCE, SO_RCVBUF), std::pair(SO_SNDBUFFORCE, SO_SNDBUF)})
    if (::setsockopt(socket.get(), SOL_SOCKET, forced, &room, sizeof room) != 0 &&
        ::setsockopt(socket.get(), SOL_SOCKET, ordinary, &room, sizeof room) != 0)
      fail("cannot set the size of a socket's buffer");
  if (::connect(socket.get(), generic(other), sizeof other) != 0) fail("cannot connect over UDP");
  pair_.meet();
  return socket;
}

verbena::unique_fd hosts::connect_over_tcp() const {
  verbena::unique_fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in other = exchange(socket);
  if (is_child() && ::listen(socket.get(), 1) != 0) fail("cannot listen");
  pair_.meet();
  if (is_child())
    socket.reset(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  else if (::connect(socket.get(), generic(other), sizeof other) != 0)
    fail("cannot connect over TCP");
  const int yes = 1;
  if (!socket || ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0)
    fail("no connection over TCP");
  return socket;
}

}  // namespace bench
