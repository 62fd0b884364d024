// SPDX-License-Identifier: MIT
// Addresses of one port that are bound by several processes: the errno of rdma_bind_addr, and which
// process a connection reaches. The managers stand for processes.
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/softdev/cm/peers.hpp"

namespace verbena::softdev::cm::testing {
namespace {

address ipv4(std::uint8_t last, std::uint16_t port) {
  address made = loopback_of(address_family::ipv4);
  made.bytes[3] = last;
  return with_port(made, port);
}
address any(address_family family, std::uint16_t port) { return {.family = family, .port = port}; }

/// Returns the number of a port that is free in all families. It is not one of those that the
/// kernel gives to sockets of other programs, and differs from those of other processes with this
/// test.
std::uint16_t free_port() {
  constexpr unsigned first = 16384;
  constexpr unsigned count = 16384;
  static unsigned next = static_cast<unsigned>(::getpid()) * 61;
  process asking;
  for (unsigned tries = 0; tries < count; ++tries) {
    const auto port = static_cast<std::uint16_t>(first + next++ % count);
    if (asking.all.bind(asking.make(), any(address_family::ipv6, port)) == 0) return port;
  }
  ADD_FAILURE() << "no port is free";
  return 0;
}

struct bound_case {
  const char* name;
  const char* first;
  const char* second;
  int expected;
};

/// "4", "4'", "6": specific addresses; "4*", "6*", "6o*": wildcards, o: of this family only.
std::pair<address, endpoint_options> read(const std::string& text, std::uint16_t port) {
  const auto family = text[0] == '4' ? address_family::ipv4 : address_family::ipv6;
  const endpoint_options options{.one_family = text.find('o') != std::string::npos};
  if (text.find('*') != std::string::npos) return {any(family, port), options};
  if (family == address_family::ipv6) return {with_port(loopback_of(family), port), options};
  return {ipv4(text == "4'" ? 2 : 1, port), options};
}

TEST(addresses, loopback_of_ipv6_is_that_of_the_system) {
  const address made = loopback_of(address_family::ipv6);
  EXPECT_EQ(std::memcmp(made.bytes.data(), &in6addr_loopback, sizeof in6addr_loopback), 0);
}

class bound_twice : public ::testing::TestWithParam<bound_case> {};
// As cma_check_port of the kernel.
TEST_P(bound_twice, second_bind_returns_the_errno_of_the_kernel) {
  for (const bool one_process : {false, true}) {
    const std::uint16_t port = free_port();
    process one;
    process other;
    process& second = one_process ? one : other;
    const auto bind = [&](process& in, const char* text) {
      const auto [where, options] = read(text, port);
      const endpoint_ptr ep = in.make();
      EXPECT_EQ(in.all.set_options(ep, options), 0);
      return std::pair(in.all.bind(ep, where), ep);
    };
    const auto [code, first] = bind(one, GetParam().first);
    ASSERT_EQ(code, 0);
    EXPECT_EQ(bind(second, GetParam().second).first, GetParam().expected) << one_process;
    one.all.destroy(first);
    if (GetParam().expected != 0) {
      EXPECT_EQ(bind(second, GetParam().second).first, 0) << "the port is free again";
    }
  }
}
INSTANTIATE_TEST_SUITE_P(
    addresses, bound_twice,
    ::testing::Values(bound_case{"equal", "4", "4", EADDRINUSE},
                      bound_case{"equal_ipv6", "6", "6", EADDRINUSE},
                      bound_case{"equal_ipv6_only", "6o", "6", EADDRINUSE},
                      bound_case{"different", "4", "4'", 0}, bound_case{"families", "4", "6", 0},
                      bound_case{"wildcards", "4*", "4*", EADDRNOTAVAIL},
                      bound_case{"wildcards_ipv6", "6*", "6*", EADDRNOTAVAIL},
                      bound_case{"wildcards_of_families", "4*", "6*", EADDRNOTAVAIL},
                      bound_case{"wildcard_of_one_family", "4*", "6o*", 0},
                      bound_case{"specific_after_wildcard", "4*", "4", EADDRNOTAVAIL},
                      bound_case{"wildcard_after_specific", "4", "4*", EADDRNOTAVAIL},
                      bound_case{"ipv6_wildcard_after_ipv4", "4", "6*", EADDRNOTAVAIL},
                      bound_case{"ipv6_only_after_ipv4", "4", "6o*", 0},
                      bound_case{"ipv4_after_ipv6_wildcard", "6*", "4", EADDRNOTAVAIL},
                      bound_case{"ipv4_wildcard_after_ipv6", "6", "4*", EADDRNOTAVAIL},
                      bound_case{"ipv4_wildcard_after_ipv6_only", "6o", "4*", 0},
                      bound_case{"ipv6_wildcards_of_one_family", "6o*", "6o*", EADDRNOTAVAIL},
                      bound_case{"ipv6_after_wildcard_of_one_family", "6o*", "6", EADDRNOTAVAIL}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

TEST(port_addresses, processes_listen_at_different_addresses_of_one_port) {
  const std::uint16_t port = free_port();
  std::vector<std::unique_ptr<process>> listeners;
  for (const std::uint8_t last : {1, 2, 3}) {
    listeners.push_back(std::make_unique<process>());
    process& each = *listeners.back();
    const endpoint_ptr listener = each.make();
    ASSERT_EQ(each.all.bind(listener, ipv4(last, port)), 0);
    ASSERT_EQ(each.all.listen(listener, 0), 0);
  }
  process active;
  for (const std::uint8_t last : {2, 1, 3}) {
    connect_to(active, ipv4(last, port));
    const event request = listeners[last - 1U]->expect(event_kind::connect_request);
    EXPECT_EQ(listeners[last - 1U]->all.look(request.about).source, ipv4(last, port));
  }
  // The first holder of the port goes; the others keep their addresses.
  listeners.front().reset();
  active.expect(event_kind::rejected, reject_reason::consumer);  // of the connection before
  connect_to(active, ipv4(3, port));
  listeners.back()->expect(event_kind::connect_request);
  connect_to(active, ipv4(1, port));
  active.expect(event_kind::rejected, reject_reason::no_listener);
  process late;
  const endpoint_ptr again = late.make();
  EXPECT_EQ(late.all.bind(again, ipv4(2, port)), EADDRINUSE);
  EXPECT_EQ(late.all.bind(again, ipv4(1, port)), 0);
}

TEST(port_addresses, wildcard_of_the_second_holder_is_reached) {
  const std::uint16_t port = free_port();
  process first;
  process second;
  for (const auto& [of, text] : {std::pair(&first, "6o"), std::pair(&second, "4*")}) {
    const endpoint_ptr listener = of->make();
    const auto [where, options] = read(text, port);
    ASSERT_EQ(of->all.set_options(listener, options), 0);
    ASSERT_EQ(of->all.bind(listener, where), 0);
    ASSERT_EQ(of->all.listen(listener, 0), 0);
  }
  process active;
  connect_to(active, ipv4(3, port));
  second.expect(event_kind::connect_request);
}

TEST(port_addresses, shared_address_belongs_to_all_until_one_listens) {
  const std::uint16_t port = free_port();
  process one;
  process other;
  process third;
  process fourth;
  const auto bind = [&](process& in, const address& where, bool shared) {
    const endpoint_ptr ep = in.make();
    EXPECT_EQ(in.all.set_options(ep, {.reuse_address = shared}), 0);
    return std::pair(in.all.bind(ep, where), ep);
  };
  const auto [first_code, first] = bind(one, ipv4(1, port), true);
  const auto [second_code, second] = bind(other, ipv4(1, port), true);
  ASSERT_EQ(first_code, 0);
  ASSERT_EQ(second_code, 0);
  EXPECT_EQ(bind(third, any(address_family::ipv4, port), true).first, 0);
  EXPECT_EQ(bind(fourth, ipv4(1, port), false).first, EADDRINUSE);
  EXPECT_EQ(other.all.listen(second, 0), EADDRINUSE);
  one.all.destroy(first);
  EXPECT_EQ(other.all.listen(second, 0), EADDRNOTAVAIL) << "a wildcard shares the port";
  third.owned.reset();  // simulates the end of the process
  EXPECT_EQ(other.all.listen(second, 0), 0);
  EXPECT_EQ(bind(one, ipv4(1, port), true).first, EADDRINUSE);
  connect_to(one, ipv4(1, port));
  other.expect(event_kind::connect_request);
}

// As with the kernel, whose rdma_set_reuseaddr() accepts each state except "listening".
TEST(port_addresses, address_is_shared_if_the_option_is_set_after_the_bind) {
  const std::uint16_t port = free_port();
  process one;
  process other;
  const endpoint_ptr first = one.make();
  ASSERT_EQ(one.all.bind(first, ipv4(1, port)), 0);
  const endpoint_ptr second = other.make();
  ASSERT_EQ(other.all.set_options(second, {.reuse_address = true}), 0);
  EXPECT_EQ(other.all.bind(second, ipv4(1, port)), EADDRINUSE);
  ASSERT_EQ(one.all.set_options(first, {.reuse_address = true}), 0);
  ASSERT_EQ(other.all.bind(second, ipv4(1, port)), 0);
  EXPECT_EQ(other.all.bind(other.make(), ipv4(1, port)), EADDRINUSE);
  EXPECT_EQ(one.all.listen(first, 0), EADDRINUSE);
  other.all.destroy(second);
  EXPECT_EQ(one.all.listen(first, 0), 0);
}

TEST(port_addresses, second_holder_that_shares_after_the_bind_leaves_the_address_to_a_listener) {
  const std::uint16_t port = free_port();
  process first_of_port;
  process one;
  process other;
  ASSERT_EQ(first_of_port.all.bind(first_of_port.make(), ipv4(2, port)), 0);
  const endpoint_ptr bound = one.make();
  ASSERT_EQ(one.all.bind(bound, ipv4(1, port)), 0);
  ASSERT_EQ(one.all.set_options(bound, {.reuse_address = true}), 0);
  const endpoint_ptr listener = other.make();
  ASSERT_EQ(other.all.set_options(listener, {.reuse_address = true}), 0);
  ASSERT_EQ(other.all.bind(listener, ipv4(1, port)), 0);
  one.all.destroy(bound);
  ASSERT_EQ(other.all.listen(listener, 0), 0);
  connect_to(one, ipv4(1, port));
  other.expect(event_kind::connect_request);
}

address link_local(std::uint32_t scope, std::uint16_t port) {
  return {.family = address_family::ipv6, .bytes = {0xfe, 0x80, 5}, .port = port, .scope = scope};
}

TEST(port_addresses, link_local_addresses_of_two_interfaces_do_not_conflict) {
  const std::uint16_t port = free_port();
  reactor watch;
  ASSERT_TRUE(watch.open().has_value());
  // Each object stands for a process.
  ports one(watch, 16);
  ports other(watch, 16);
  port_holder first;
  port_holder second;
  port_holder third;
  ASSERT_EQ(one.take(first, link_local(2, port)), 0);
  EXPECT_EQ(other.take(second, link_local(2, port)), EADDRINUSE);
  ASSERT_EQ(other.take(second, link_local(3, port)), 0);
  EXPECT_EQ(one.take(third, link_local(2, port)), EADDRINUSE);
  ASSERT_EQ(one.take(third, link_local(4, port)), 0);
  for (port_holder* each : {&first, &third}) ASSERT_EQ(one.listen(*each), 0);
  ASSERT_EQ(other.listen(second), 0);
  const std::uint32_t key = static_cast<std::uint32_t>(port_space::tcp) << 16U | port;
  EXPECT_EQ(one.listener_for(key, link_local(2, port)), &first);
  EXPECT_EQ(one.listener_for(key, link_local(4, port)), &third);
  const socket_or_error made = connect_to_port(port_space::tcp, link_local(3, port));
  ASSERT_EQ(made.error, 0);
  EXPECT_TRUE(other.next_peer(key).socket);
  EXPECT_FALSE(one.next_peer(key).socket);
  for (port_holder* each : {&first, &third}) one.release(*each);
  other.release(second);
}

TEST(port_addresses, link_local_address_without_an_interface_is_refused) {
  process one;
  EXPECT_EQ(one.all.bind(one.make(), link_local(0, free_port())), EINVAL);
}

/// Returns the link-local addresses of this host with the first interface that has them.
std::vector<address> own_link_local() {
  std::vector<address> found;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET6) continue;
    const auto& its = *reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
    address made{.family = address_family::ipv6, .scope = its.sin6_scope_id};
    std::memcpy(made.bytes.data(), &its.sin6_addr, made.bytes.size());
    const bool is_known =
        std::ranges::any_of(found, [&](const address& before) { return same_host(before, made); });
    if (is_link_local(made) && !is_known) found.push_back(made);
  }
  ::freeifaddrs(all);
  return found;
}

TEST(port_addresses, own_link_local_addresses_are_reached_without_an_interface) {
  EXPECT_FALSE(find_local(link_local(0, 0)).has_value()) << "no address of this host";
  for (const address& own : own_link_local()) {
    process passive;
    const endpoint_ptr listener = passive.make();
    ASSERT_EQ(passive.all.bind(listener, own), 0);
    ASSERT_EQ(passive.all.listen(listener, 0), 0);
    address without = passive.all.look(listener).source;
    without.scope = 0;
    process active;
    const endpoint_ptr made = connect_to(active, without);
    passive.expect(event_kind::connect_request);
    EXPECT_EQ(active.all.look(made).destination.scope, own.scope);
    EXPECT_EQ(active.all.look(made).source.scope, own.scope);
  }
}

// Processes that look for holders connect to the names and do not stay there.
TEST(port_addresses, many_refused_binds_leave_the_port_held) {
  service held;
  process other;
  for (int round = 0; round < 300; ++round)
    ASSERT_EQ(other.all.bind(other.make(), held.where), EADDRINUSE) << round;
  connect_to(other, held.where);
  held.request();
}

/// Takes a name as a process of another user could.
unique_fd take(const std::string& name, bool listening) {
  socket_or_error made = new_local_socket();
  const local_name where("%s", name.c_str());
  EXPECT_EQ(::bind(made.socket.get(), where.get(), where.length()), 0);
  if (listening) {
    EXPECT_EQ(::listen(made.socket.get(), 1), 0);
  }
  return std::move(made.socket);
}

/// Has this process use no private directory, in which names are that other users cannot take.
class no_private_directory {
 public:
  no_private_directory() {
    for (const char* each : variables) {
      if (const char* value = std::getenv(each)) before_.emplace_back(each, value);
      ::unsetenv(each);
    }
  }
  no_private_directory(const no_private_directory&) = delete;
  no_private_directory& operator=(const no_private_directory&) = delete;
  ~no_private_directory() {
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  static constexpr const char* variables[] = {"HOME", "XDG_RUNTIME_DIR"};
  std::vector<std::pair<std::string, std::string>> before_;
};

TEST(port_addresses, taken_names_are_told_apart_from_a_port_in_use) {
  const no_private_directory public_names;
  const std::uint16_t port = free_port();
  std::string end = ".";  // not "." + …, for which g++ 12 warns of an overflow
  end += std::to_string(::geteuid()) + ".106." + std::to_string(port);
  // The name of the port only: the address has a name of its own.
  const unique_fd general = take("verbena-cm-port" + end, false);
  process one;
  {
    const endpoint_ptr listener = one.make();
    EXPECT_EQ(one.all.bind(listener, ipv4(1, port)), 0);
    EXPECT_EQ(one.all.listen(listener, 0), 0);
    process active;
    connect_to(active, ipv4(1, port));
    one.expect(event_kind::connect_request);
    one.all.destroy(listener);
  }
  const unique_fd own = take("verbena-cm-at" + end + ".47f000001.e0", false);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(one.all.bind(one.make(), ipv4(1, port)), EADDRINUSE);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("no process of this user is bound to this address of port " +
                     std::to_string(port) + ", but its name is held by a process that does not"),
            std::string::npos)
      << log;
}

TEST(port_addresses, port_with_all_names_taken_belongs_to_one_process) {
  const std::uint16_t port = free_port();
  std::vector<unique_fd> names;
  names.reserve(8);
  for (int copy = 0; copy < 8; ++copy)
    names.push_back(take("verbena-cm-addr." + std::to_string(::geteuid()) + ".106." +
                             std::to_string(port) + ".A.e" + std::to_string(copy),
                         false));
  process one;
  process other;
  ::testing::internal::CaptureStderr();
  const endpoint_ptr listener = one.make();
  EXPECT_EQ(one.all.bind(listener, any(address_family::ipv4, port)), 0);
  EXPECT_EQ(other.all.bind(other.make(), any(address_family::ipv4, port)), EADDRINUSE);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("are taken, the first by a process that does not answer"), std::string::npos)
      << log;
  EXPECT_EQ(one.all.listen(listener, 0), 0);
  connect_to(other, ipv4(1, port));
  one.expect(event_kind::connect_request);
}

}  // namespace
}  // namespace verbena::softdev::cm::testing
