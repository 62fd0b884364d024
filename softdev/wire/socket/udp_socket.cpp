// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/udp_socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace verbena::softdev::wire {
namespace {

constexpr std::size_t ipv4_offset = 12;  ///< of an IPv4 address in network_address

in_addr ipv4_of(const network_address& which) noexcept {
  in_addr out;
  std::memcpy(&out, which.data() + ipv4_offset, sizeof out);
  return out;
}

network_address mapped(const in_addr& which) noexcept {
  network_address out{};
  out[10] = out[11] = 0xff;
  std::memcpy(out.data() + ipv4_offset, &which, sizeof which);
  return out;
}

network_address address_of(const in6_addr& which) noexcept {
  network_address out;
  std::memcpy(out.data(), &which, sizeof which);
  return out;
}

/// Writes the address for a socket of the family. Precondition: AF_INET sockets get IPv4 addresses.
socklen_t store(int family, const network_address& which, std::uint16_t port,
                sockaddr_storage& out) noexcept {
  if (family == AF_INET) {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_port = htons(port);
    made.sin_addr = ipv4_of(which);
    std::memcpy(&out, &made, sizeof made);
    return sizeof made;
  }
  sockaddr_in6 made{};
  made.sin6_family = AF_INET6;
  made.sin6_port = htons(port);
  std::memcpy(&made.sin6_addr, which.data(), which.size());
  std::memcpy(&out, &made, sizeof made);
  return sizeof made;
}

const sockaddr* generic(const sockaddr_storage& which) noexcept {
  return static_cast<const sockaddr*>(static_cast<const void*>(&which));
}

/// An option that the kernel must know.
struct required_option {
  int level;
  int name;
  int value;
};

bool set(int socket, const required_option& what) noexcept {
  return ::setsockopt(socket, what.level, what.name, &what.value, sizeof what.value) == 0;
}

/// A long queue, as far as the limits of the host permit: sizes above rmem_max need CAP_NET_ADMIN.
void enlarge(int socket, int forced, int ordinary) noexcept {
  constexpr int wanted = 4 << 20;
  if (!set(socket, {SOL_SOCKET, forced, wanted}))
    static_cast<void>(set(socket, {SOL_SOCKET, ordinary, wanted}));
}

/// Adds an entry behind those that the message has.
template <class Value>
void add_control(msghdr& out, int level, int type, const Value& value) noexcept {
  static_assert(CMSG_SPACE(sizeof value) <= udp_socket::control_bytes);
  const std::size_t before = out.msg_controllen;
  out.msg_controllen = before + CMSG_SPACE(sizeof value);
  auto* const head =
      static_cast<cmsghdr*>(static_cast<void*>(static_cast<std::byte*>(out.msg_control) + before));
  head->cmsg_level = level;
  head->cmsg_type = type;
  head->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(head), &value, sizeof value);
}

error failure(const char* call, std::uint16_t port) {
  const int code = errno;
  return error::from_errno(code, call, "UDP port " + std::to_string(port) + " of soft0");
}

int open_socket(int& family) noexcept {
  for (const int each : {AF_INET6, AF_INET}) {
    family = each;
    const int made = ::socket(each, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made >= 0 || errno != EAFNOSUPPORT) return made;
  }
  return -1;
}

}  // namespace

result<udp_socket> udp_socket::open(std::uint16_t port, use what) {
  int family = AF_INET6;
  unique_fd socket(open_socket(family));
  if (!socket) return failure("socket", port);
  const int fd = socket.get();
  bool ready = set(fd, {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO});
  if (family == AF_INET6) {
    ready = ready && set(fd, {IPPROTO_IPV6, IPV6_V6ONLY, 0}) &&
            set(fd, {IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO}) &&
            set(fd, {IPPROTO_IPV6, IPV6_RECVPKTINFO, 1});
  } else {
    ready = ready && set(fd, {IPPROTO_IP, IP_PKTINFO, 1});
  }
  if (!ready) return failure("setsockopt", port);
  if (what == use::receiving) {
    enlarge(fd, SO_RCVBUFFORCE, SO_RCVBUF);
  } else {
    enlarge(fd, SO_SNDBUFFORCE, SO_SNDBUF);
    static_cast<void>(set(fd, {SOL_SOCKET, SO_RCVBUF, 0}));  // the least that the kernel permits
  }
  sockaddr_storage name{};
  socklen_t length = store(family, {}, port, name);
  if (::bind(fd, generic(name), length) != 0) return failure("bind", port);
  if (::getsockname(fd, static_cast<sockaddr*>(static_cast<void*>(&name)), &length) != 0)
    return failure("getsockname", port);
  // The port has the same place in both families.
  sockaddr_in head;
  std::memcpy(&head, &name, sizeof head);
  return udp_socket(std::move(socket), family, ntohs(head.sin_port));
}

void udp_socket::address(const datagram_ends& ends, std::uint16_t port, sockaddr_storage& name,
                         control& data, msghdr& out) const noexcept {
  out.msg_name = &name;
  out.msg_namelen = store(family_, ends.destination, port, name);
  out.msg_control = data.bytes.data();
  out.msg_controllen = 0;
  if (family_ == AF_INET) {
    in_pktinfo from{};
    from.ipi_spec_dst = ipv4_of(ends.source);
    add_control(out, IPPROTO_IP, IP_PKTINFO, from);
  } else {
    in6_pktinfo from{};
    std::memcpy(&from.ipi6_addr, ends.source.data(), ends.source.size());
    add_control(out, IPPROTO_IPV6, IPV6_PKTINFO, from);
  }
}

void udp_socket::divide(std::uint16_t bytes, msghdr& out) noexcept {
  static_assert(CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof bytes) <= control_bytes);
  add_control(out, SOL_UDP, UDP_SEGMENT, bytes);
}

void udp_socket::join_received() const noexcept {
  static_cast<void>(set(fd(), {SOL_UDP, UDP_GRO, 1}));  // Linux 5.0
}

std::size_t udp_socket::datagram_bytes(const msghdr& received) noexcept {
  msghdr reading = received;
  for (cmsghdr* each = CMSG_FIRSTHDR(&reading); each != nullptr;
       each = CMSG_NXTHDR(&reading, each)) {
    int bytes = 0;
    if (each->cmsg_level != SOL_UDP || each->cmsg_type != UDP_GRO ||
        each->cmsg_len < CMSG_LEN(sizeof bytes))
      continue;
    std::memcpy(&bytes, CMSG_DATA(each), sizeof bytes);
    return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
  }
  return 0;
}

bool udp_socket::read_ends(const msghdr& received, datagram_ends& out) noexcept {
  const auto* const name = static_cast<const sockaddr*>(received.msg_name);
  if (name->sa_family == AF_INET6 && received.msg_namelen >= sizeof(sockaddr_in6)) {
    sockaddr_in6 from;
    std::memcpy(&from, name, sizeof from);
    out.source = address_of(from.sin6_addr);
    out.source_port = ntohs(from.sin6_port);
  } else if (name->sa_family == AF_INET && received.msg_namelen >= sizeof(sockaddr_in)) {
    sockaddr_in from;
    std::memcpy(&from, name, sizeof from);
    out.source = mapped(from.sin_addr);
    out.source_port = ntohs(from.sin_port);
  } else {
    return false;
  }
  msghdr reading = received;
  for (cmsghdr* each = CMSG_FIRSTHDR(&reading); each != nullptr;
       each = CMSG_NXTHDR(&reading, each)) {
    if (each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_PKTINFO &&
        each->cmsg_len >= CMSG_LEN(sizeof(in6_pktinfo))) {
      in6_pktinfo to;
      std::memcpy(&to, CMSG_DATA(each), sizeof to);
      out.destination = address_of(to.ipi6_addr);
      out.interface = to.ipi6_ifindex;
      return true;
    }
    if (each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_PKTINFO &&
        each->cmsg_len >= CMSG_LEN(sizeof(in_pktinfo))) {
      in_pktinfo to;
      std::memcpy(&to, CMSG_DATA(each), sizeof to);
      out.destination = mapped(to.ipi_addr);
      out.interface = static_cast<std::uint32_t>(to.ipi_ifindex);
      return true;
    }
  }
  return false;
}

result<std::uint32_t> find_route_mtu(const network_address& own, const network_address& peer) {
  const auto failed = [&](const char* call) {
    const int code = errno;
    return error::from_errno(code, call, "soft0",
                             "route from " + to_text(own) + " to " + to_text(peer));
  };
  const int family = is_ipv4(peer) ? AF_INET : AF_INET6;
  const unique_fd probe(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe) return failed("socket");
  sockaddr_storage name{};
  socklen_t length = store(family, own, 0, name);
  if (::bind(probe.get(), generic(name), length) != 0) return failed("bind");
  length = store(family, peer, roce_port, name);
  if (::connect(probe.get(), generic(name), length) != 0) return failed("connect");
  int mtu = 0;
  socklen_t size = sizeof mtu;
  const bool known = family == AF_INET
                         ? ::getsockopt(probe.get(), IPPROTO_IP, IP_MTU, &mtu, &size) == 0
                         : ::getsockopt(probe.get(), IPPROTO_IPV6, IPV6_MTU, &mtu, &size) == 0;
  if (!known) return failed("getsockopt");
  return static_cast<std::uint32_t>(std::max(mtu, 0));
}

result<network_address> find_source(const network_address& peer) {
  const auto failed = [&](const char* call) {
    const int code = errno;
    return error::from_errno(code, call, "soft0", "route to " + to_text(peer));
  };
  const int family = is_ipv4(peer) ? AF_INET : AF_INET6;
  const unique_fd probe(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe) return failed("socket");
  sockaddr_storage name{};
  socklen_t length = store(family, peer, roce_port, name);
  if (::connect(probe.get(), generic(name), length) != 0) return failed("connect");
  length = sizeof name;
  if (::getsockname(probe.get(), static_cast<sockaddr*>(static_cast<void*>(&name)), &length) != 0)
    return failed("getsockname");
  if (family == AF_INET) {
    sockaddr_in own;
    std::memcpy(&own, &name, sizeof own);
    return mapped(own.sin_addr);
  }
  sockaddr_in6 own;
  std::memcpy(&own, &name, sizeof own);
  return address_of(own.sin6_addr);
}

std::string to_text(const network_address& which) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool ipv4 = is_ipv4(which);
  const void* const from = which.data() + (ipv4 ? ipv4_offset : 0);
  return ::inet_ntop(ipv4 ? AF_INET : AF_INET6, from, text.data(), text.size()) != nullptr
             ? text.data()
             : "?";
}

std::optional<network_address> from_text(const std::string& text) {
  in_addr ipv4;
  if (::inet_pton(AF_INET, text.c_str(), &ipv4) == 1) return mapped(ipv4);
  in6_addr ipv6;
  if (::inet_pton(AF_INET6, text.c_str(), &ipv6) == 1) return address_of(ipv6);
  return std::nullopt;
}

}  // namespace verbena::softdev::wire
