// SPDX-License-Identifier: MIT
// A process with a wire path, without the other parts of the device: an engine, a path and a queue
// pair. Several of these objects are in one process and use addresses of the loopback interface.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "softdev/ipc/clock.hpp"
#include "softdev/ipc/local_socket.hpp"
#include "softdev/wire/socket/wire_path.hpp"
#include "tests/unit/softdev/wire/simulation/end.hpp"

namespace verbena::softdev::wire {

/// Returns 127.0.0.`last`.
inline network_address loopback(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, last};
}

/// ::1, the address of all hosts over IPv6.
inline constexpr network_address ipv6_loopback = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

/// Returns whether this network namespace supports IPv6.
inline bool has_ipv6() { return find_source(ipv6_loopback, 0).has_value(); }

/// 0.5 s, so that requests do not fail if threads do not run for some time.
inline constexpr std::uint8_t long_timeout = 17;

/// Returns a UDP port that was free during the call.
inline std::uint16_t free_port() {
  return udp_socket::open(0, udp_socket::use::receiving).value().port();
}

/// An owner of the port without a UDP socket. Its answers have no descriptor, as if too many of
/// them were in flight (ETOOMANYREFS). Threads: one thread at a time.
class owner_without_descriptor {
 public:
  explicit owner_without_descriptor(std::uint16_t port) {
    const local_name name("verbena-wire.%u.%u", static_cast<unsigned>(::geteuid()),
                          static_cast<unsigned>(port));
    EXPECT_EQ(::bind(listener_.get(), name.get(), name.length()), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
  }
  void answer() {
    client_ = accept_own_user(listener_.get(), 1).socket;
    std::array<std::byte, 64> said{};
    const ssize_t bytes = ::recv(client_.get(), said.data(), said.size(), 0);
    ASSERT_GT(bytes, 0);
    EXPECT_EQ(::send(client_.get(), said.data(), static_cast<std::size_t>(bytes), 0), bytes);
  }
  /// Answers with two descriptors.
  void answer_with(const std::array<int, 2>& descriptors) {
    client_ = accept_own_user(listener_.get(), 1).socket;
    std::array<std::byte, 64> said{};
    const ssize_t bytes = ::recv(client_.get(), said.data(), said.size(), 0);
    ASSERT_GT(bytes, 0);
    iovec piece{said.data(), static_cast<std::size_t>(bytes)};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof descriptors);
    std::memcpy(CMSG_DATA(part), descriptors.data(), sizeof descriptors);
    EXPECT_EQ(::sendmsg(client_.get(), &message, 0), bytes);
  }

 private:
  unique_fd listener_ = new_local_socket().socket;
  unique_fd client_;
};

/// Receives datagrams at one address. Threads: one thread at a time.
class one_address final : public own_addresses {
 public:
  explicit one_address(const network_address& which) noexcept : which_(which) {}
  bool receives(const network_address& own, std::uint32_t /*interface*/) noexcept override {
    return own == which_;
  }
  bool receives_groups_at(std::uint32_t interface) noexcept override {
    return interface == loopback_interface;
  }
  std::uint32_t interface_of(const network_address& own) const noexcept override {
    asked = own;
    return 0;
  }
  mutable network_address asked{};  ///< by the last call of interface_of()

 private:
  network_address which_;
};

/// Threads: one thread at a time.
class wired_host {
 public:
  static constexpr std::uint32_t path_mtu = 3;  ///< the code of `mtu`
  static constexpr std::uint32_t mtu = 1024;

  /// `number` is the process slot and the last byte of the address.
  wired_host(std::uint8_t number, std::uint16_t port, wire_path_options options = {},
             transport kind = transport::rc)
      : wired_host(number, loopback(number), port, options, kind) {}
  wired_host(std::uint8_t number, const network_address& own, std::uint16_t port,
             wire_path_options options, transport kind)
      : number_(number),
        address_(own),
        own_(own),
        path(home,
             port_share::open(port, number, options.key ? options.key->fingerprint() : 0).value(),
             [&] {
               options.process_slot = number;
               options.addresses = &own_;
               return options;
             }()),
        mine(home, kind) {
    home.routes().set_remote(&path);
    all_.push_back(this);
  }
  ~wired_host() { std::erase(all_, this); }
  wired_host(const wired_host&) = delete;
  wired_host& operator=(const wired_host&) = delete;

  [[nodiscard]] network_address address() const { return address_; }
  [[nodiscard]] const one_address& own() const { return own_; }
  [[nodiscard]] wire_route route_to(const wired_host& peer) const {
    return {.own = address(), .peer = peer.address()};
  }
  [[nodiscard]] queue_pair& pair() { return mine.pair(); }
  /// Opens the sockets, and connects the queue pair to the queue pair of `peer`.
  void connect(wired_host& peer) { connect(mine, peer, peer.mine); }
  /// Opens the sockets, and connects a queue pair of this host to one of `peer`.
  void connect(simulation::end& from, wired_host& peer, simulation::end& to) {
    prepare(from.pair(), route_to(peer));
    queue_pair_attributes attributes = simulation::attributes_for(to.pair().number());
    attributes.path_mtu = path_mtu;
    attributes.timeout = timeout;
    attributes.path_to_peer = path_to_peer::wire;
    from.connect(attributes);
  }
  /// Opens the sockets while the other hosts run, because one of them can be the owner of the port.
  /// Sets a route.
  void prepare(const queue_pair& which, const wire_route& route);
  /// Opens the sockets, and moves the UD queue pair to RTS.
  void activate() {
    prepare(pair(), {.any = true});
    mine.connect(simulation::attributes_for(0));
  }
  /// Returns the queue pair of `peer` as a destination of datagrams.
  [[nodiscard]] datagram_destination destination(wired_host& peer) const {
    datagram_destination made{.address = {{.source = address(), .destination = peer.address()}, {}},
                              .qpn = peer.pair().number(),
                              .qkey = simulation::qkey,
                              .known = true};
    made.address.set_wire_mtu(path_mtu);
    return made;
  }
  void run() {
    path.progress();
    home.progress();
  }

 private:
  std::uint8_t number_;
  network_address address_;
  inline static std::vector<wired_host*> all_;
  one_address own_;

 public:
  std::uint8_t timeout = 8;                           ///< of connections: 1 ms
  inline static time_ns (*clock)() = &monotonic_now;  ///< of the hosts that are created next
  engine home{{.process_slot = number_, .clock = clock}};
  wire_path path;
  simulation::end mine;
  simulation::memory memory{home, 256 * 1024};
};

/// Runs hosts until `done()` is true, for at most 20 seconds. Returns whether it is true.
template <class Done>
[[nodiscard]] bool run_until(const std::vector<wired_host*>& hosts, Done done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    for (wired_host* each : hosts) each->run();
  }
  return true;
}

inline void wired_host::prepare(const queue_pair& which, const wire_route& route) {
  ASSERT_TRUE(run_until(all_, [&] {
    const auto role = path.open_sockets();
    return !role || *role != port_share::role::none;
  }));
  const auto prepared = path.connect(which, route);
  ASSERT_TRUE(prepared) << prepared.error().message();
}

/// Runs hosts until a completion is available, and returns it. After a timeout, returns a
/// completion with status `fatal_error`.
[[nodiscard]] inline completion next_completion(const std::vector<wired_host*>& hosts,
                                                completion_queue& queue) {
  std::array<completion, 1> found;
  const bool came = run_until(hosts, [&] { return queue.poll(found) == 1; });
  return came ? found[0] : completion{.status = completion_status::fatal_error};
}

}  // namespace verbena::softdev::wire
