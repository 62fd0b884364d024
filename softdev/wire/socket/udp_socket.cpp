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

#include "softdev/core/datagram.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr std::size_t ipv4_offset = 12;  ///< of the IPv4 address in a network_address

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

/// Writes an address for a socket of this family. Precondition: an AF_INET socket gets an IPv4
/// address.
socklen_t store(int family, const network_address& which, std::uint16_t port, sockaddr_storage& out,
                std::uint32_t interface = 0) noexcept {
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
  if (is_link_local(which) || is_multicast(which)) made.sin6_scope_id = interface;
  std::memcpy(&out, &made, sizeof made);
  return sizeof made;
}

const sockaddr* generic(const sockaddr_storage& which) noexcept {
  return static_cast<const sockaddr*>(static_cast<const void*>(&which));
}

/// A socket option that the kernel must support.
struct required_option {
  int level;
  int name;
  int value;
};

bool set(int socket, const required_option& what) noexcept {
  return ::setsockopt(socket, what.level, what.name, &what.value, sizeof what.value) == 0;
}

/// Enlarges a socket buffer as far as the host permits. Sizes above rmem_max or wmem_max require
/// CAP_NET_ADMIN.
void enlarge(int socket, int forced, int ordinary) noexcept {
  constexpr int wanted = 4 << 20;
  if (!set(socket, {SOL_SOCKET, forced, wanted}))
    static_cast<void>(set(socket, {SOL_SOCKET, ordinary, wanted}));
}

/// The maximum length of the control data: an IPv6 address with an interface, traffic class, hop
/// limit, and the size of the datagrams.
static_assert(CMSG_SPACE(sizeof(in6_pktinfo)) + 3 * CMSG_SPACE(sizeof(int)) <=
              udp_socket::control_bytes);

/// Appends control data to `out`.
template <class Value>
void add_control(msghdr& out, int level, int type, const Value& value) noexcept {
  cmsghdr head{};
  head.cmsg_level = level;
  head.cmsg_type = type;
  head.cmsg_len = CMSG_LEN(sizeof value);
  std::byte* const to = static_cast<std::byte*>(out.msg_control) + out.msg_controllen;
  std::memcpy(to, &head, sizeof head);
  std::memcpy(to + CMSG_LEN(0), &value, sizeof value);
  out.msg_controllen += CMSG_SPACE(sizeof value);
}

/// Reads control data if it has this level and type.
template <class Value>
bool read_control(cmsghdr& from, int level, int type, Value& out) noexcept {
  if (from.cmsg_level != level || from.cmsg_type != type || from.cmsg_len < CMSG_LEN(sizeof out))
    return false;
  std::memcpy(&out, CMSG_DATA(&from), sizeof out);
  return true;
}

error failure(const char* call, std::uint16_t port) {
  const int code = errno;
  return error::from_errno(code, call, "UDP port " + std::to_string(port) + " of soft0");
}

/// Returns the port of a socket address of either family: the port has the same offset.
std::uint16_t port_of(const sockaddr_storage& name) noexcept {
  sockaddr_in head;
  std::memcpy(&head, &name, sizeof head);
  return ntohs(head.sin_port);
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
    ready = set(fd, {IPPROTO_IP, IP_RECVTOS, 1}) &&
            (family == AF_INET || set(fd, {IPPROTO_IPV6, IPV6_RECVTCLASS, 1}));
    if (!ready) return failure("setsockopt", port);
    enlarge(fd, SO_RCVBUFFORCE, SO_RCVBUF);
    // The kernel's rxe and adapters send IPv6 packets without a UDP checksum. The ICRC protects
    // them.
    if (family == AF_INET6 && !set(fd, {IPPROTO_UDP, UDP_NO_CHECK6_RX, 1}))
      return failure("setsockopt", port);
    // Receives the datagrams of all groups that this host has joined. The option is off by default
    // in IPv6 sockets.
    if (!set(fd, {IPPROTO_IP, IP_MULTICAST_ALL, 1})) return failure("setsockopt", port);
  } else {
    enlarge(fd, SO_SNDBUFFORCE, SO_SNDBUF);
    static_cast<void>(set(fd, {SOL_SOCKET, SO_RCVBUF, 0}));  // the minimum that the kernel permits
    // Members on this host receive the datagrams of a group by another path.
    ready = set(fd, {IPPROTO_IP, IP_MULTICAST_LOOP, 0}) &&
            (family == AF_INET || set(fd, {IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0}));
    // Most datagrams are RC packets, which react to congestion. `address` sets the ECN bits of
    // others.
    ready = ready && set(fd, {IPPROTO_IP, IP_TOS, ecn_capable}) &&
            (family == AF_INET || set(fd, {IPPROTO_IPV6, IPV6_TCLASS, ecn_capable}));
    if (!ready) return failure("setsockopt", port);
  }
  sockaddr_storage name{};
  socklen_t length = store(family, {}, port, name);
  if (::bind(fd, generic(name), length) != 0) return failure("bind", port);
  if (::getsockname(fd, static_cast<sockaddr*>(static_cast<void*>(&name)), &length) != 0)
    return failure("getsockname", port);
  return udp_socket(std::move(socket), family, port_of(name));
}

std::optional<udp_socket> udp_socket::adopt(unique_fd opened, std::uint16_t port) noexcept {
  int type = 0;
  socklen_t bytes = sizeof type;
  if (::getsockopt(opened.get(), SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_DGRAM)
    return std::nullopt;
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (::getsockname(opened.get(), static_cast<sockaddr*>(static_cast<void*>(&name)), &length) != 0)
    return std::nullopt;
  const bool is_ip = name.ss_family == AF_INET || name.ss_family == AF_INET6;
  if (!is_ip || port_of(name) != port) return std::nullopt;
  return udp_socket(std::move(opened), name.ss_family, port);
}

std::uint8_t sent_traffic_class(const datagram_addresses& ends) noexcept {
  const unsigned given = is_ipv4(ends.destination) ? 0 : ends.traffic_class & ~unsigned{ecn_mask};
  return static_cast<std::uint8_t>(given | (ends.reacts_to_congestion ? ecn_capable : 0U));
}

void udp_socket::address(const datagram_addresses& ends, std::uint16_t port, sockaddr_storage& name,
                         control& data, msghdr& out) const noexcept {
  out.msg_name = &name;
  out.msg_namelen = store(family_, ends.destination, port, name, ends.interface);
  out.msg_control = data.bytes.data();
  out.msg_controllen = 0;
  const bool to_group = is_multicast(ends.destination);
  const bool ipv4 = is_ipv4(ends.destination);
  if (family_ == AF_INET) {
    in_pktinfo from{};
    from.ipi_spec_dst = ipv4_of(ends.source);
    if (to_group) from.ipi_ifindex = static_cast<int>(ends.interface);
    add_control(out, IPPROTO_IP, IP_PKTINFO, from);
  } else {
    in6_pktinfo from{};
    std::memcpy(&from.ipi6_addr, ends.source.data(), ends.source.size());
    from.ipi6_ifindex =
        to_group ? ends.interface : scope_of(ends.source, ends.destination, ends.interface);
    add_control(out, IPPROTO_IPV6, IPV6_PKTINFO, from);
  }
  const int traffic_class = sent_traffic_class(ends);
  if (traffic_class != ecn_capable) {
    if (ipv4)
      add_control(out, IPPROTO_IP, IP_TOS, traffic_class);
    else
      add_control(out, IPPROTO_IPV6, IPV6_TCLASS, traffic_class);
  }
  if (!to_group || ends.hop_limit == 0) return;
  if (ipv4)
    add_control(out, IPPROTO_IP, IP_TTL, int{ends.hop_limit});
  else
    add_control(out, IPPROTO_IPV6, IPV6_HOPLIMIT, int{ends.hop_limit});
}

void udp_socket::divide(std::uint16_t bytes, msghdr& out) noexcept {
  add_control(out, SOL_UDP, UDP_SEGMENT, bytes);
}

bool udp_socket::supports_gso() const noexcept {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  return ::getsockopt(fd(), SOL_UDP, UDP_SEGMENT, &bytes, &length) == 0;
}

void udp_socket::enable_gro() const noexcept {
  static_cast<void>(set(fd(), {SOL_UDP, UDP_GRO, 1}));  // Linux 5.0
}

std::size_t udp_socket::datagram_bytes(const msghdr& received) noexcept {
  msghdr reading = received;
  for (cmsghdr* each = CMSG_FIRSTHDR(&reading); each != nullptr;
       each = CMSG_NXTHDR(&reading, each)) {
    int bytes = 0;
    if (read_control(*each, SOL_UDP, UDP_GRO, bytes))
      return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
  }
  return 0;
}

bool udp_socket::read_ends(const msghdr& received, datagram_addresses& out) noexcept {
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
  bool found = false;
  msghdr reading = received;
  for (cmsghdr* each = CMSG_FIRSTHDR(&reading); each != nullptr;
       each = CMSG_NXTHDR(&reading, each)) {
    in6_pktinfo to6;
    in_pktinfo to4;
    int traffic_class = 0;
    if (read_control(*each, IPPROTO_IPV6, IPV6_PKTINFO, to6)) {
      out.destination = address_of(to6.ipi6_addr);
      out.interface = to6.ipi6_ifindex;
      found = true;
    } else if (read_control(*each, IPPROTO_IP, IP_PKTINFO, to4)) {
      out.destination = mapped(to4.ipi_addr);
      out.interface = static_cast<std::uint32_t>(to4.ipi_ifindex);
      found = true;
    } else if (read_control(*each, IPPROTO_IPV6, IPV6_TCLASS, traffic_class)) {
      out.traffic_class = static_cast<std::uint8_t>(traffic_class);
    } else {
      static_cast<void>(read_control(*each, IPPROTO_IP, IP_TOS, out.traffic_class));
    }
  }
  return found;
}

result<std::uint32_t> find_route_mtu(const datagram_addresses& ends) {
  const auto failed = [&](const char* call) {
    const int code = errno;
    return error::from_errno(
        code, call, "soft0",
        "route from " + to_text(ends.source) + " to " + to_text(ends.destination));
  };
  const int family = is_ipv4(ends.destination) ? AF_INET : AF_INET6;
  const unique_fd probe(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe) return failed("socket");
  sockaddr_storage name{};
  socklen_t length = store(family, ends.source, 0, name, ends.interface);
  if (::bind(probe.get(), generic(name), length) != 0) return failed("bind");
  length = store(family, ends.destination, roce_port, name, ends.interface);
  if (::connect(probe.get(), generic(name), length) != 0) return failed("connect");
  int mtu = 0;
  socklen_t size = sizeof mtu;
  const bool known = family == AF_INET
                         ? ::getsockopt(probe.get(), IPPROTO_IP, IP_MTU, &mtu, &size) == 0
                         : ::getsockopt(probe.get(), IPPROTO_IPV6, IPV6_MTU, &mtu, &size) == 0;
  if (!known) return failed("getsockopt");
  return static_cast<std::uint32_t>(std::max(mtu, 0));
}

result<group_socket> group_socket::open(const network_address& group) {
  unique_fd socket(
      ::socket(is_ipv4(group) ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return error::from_errno(errno, "socket", "multicast group " + to_text(group));
  return group_socket(std::move(socket), group);
}

int group_socket::join(std::uint32_t interface) const noexcept {
  int done = 0;
  if (is_ipv4(group_)) {
    ip_mreqn wanted{};
    wanted.imr_multiaddr = ipv4_of(group_);
    wanted.imr_ifindex = static_cast<int>(interface);
    done = ::setsockopt(socket_.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &wanted, sizeof wanted);
  } else {
    ipv6_mreq wanted{};
    std::memcpy(&wanted.ipv6mr_multiaddr, group_.data(), group_.size());
    wanted.ipv6mr_interface = interface;
    done = ::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_JOIN_GROUP, &wanted, sizeof wanted);
  }
  return done == 0 ? 0 : errno;
}

result<network_address> find_source(const network_address& peer, std::uint32_t interface) {
  const auto failed = [&](const char* call) {
    const int code = errno;
    return error::from_errno(code, call, "soft0", "route to " + to_text(peer));
  };
  const int family = is_ipv4(peer) ? AF_INET : AF_INET6;
  const unique_fd probe(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe) return failed("socket");
  sockaddr_storage name{};
  socklen_t length = store(family, peer, roce_port, name, interface);
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
