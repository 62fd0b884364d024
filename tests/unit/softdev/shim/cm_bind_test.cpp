// SPDX-License-Identifier: MIT
// rdma_bind_addr of several processes and users at one port.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/unit/softdev/shim/cm_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::uint32_t second_host = 0x7f000002;

TEST(cm_bind, errno_depends_on_the_addresses_that_another_process_has) {
  child_process other([](stream& parent) {
    cm_channel channel;
    cm_id listener(channel);
    parent.put(listener.listen());
    channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    parent.meet();
    return 0;
  });
  const auto port = other.to().take<std::uint16_t>();
  cm_channel channel;
  cm_id same(channel);
  EXPECT_EQ(same.bind(port), EADDRINUSE);
  EXPECT_EQ(same.bind(port, 0), EADDRNOTAVAIL);
  EXPECT_EQ(same.bind(port, second_host), 0);
  EXPECT_EQ(CM(rdma_listen)(same.get(), 1), 0);
  {
    // Each process gets the connections to its address.
    cm_id to_other(channel);
    to_other.resolve(channel, port);
    to_other.create_qp();
    EXPECT_EQ(CM(rdma_connect)(to_other.get(), nullptr), 0);
    other.to().meet();
  }
  EXPECT_EQ(other.join(), 0);
  cm_id next(channel);
  EXPECT_EQ(next.bind(port), 0) << "the other process has exited";
}

/// Takes an abstract name and listens by it.
int take_name(const std::string& name) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return bind(fd, reinterpret_cast<const sockaddr*>(&where), length) == 0 ? listen(fd, 8) : errno;
}

TEST(cm_bind, names_taken_by_another_user_are_reported) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can change its user";
  constexpr uid_t stranger = 54'321;
  const std::string home = getenv("HOME") != nullptr ? getenv("HOME") : "";
  const std::string runtime = getenv("XDG_RUNTIME_DIR") != nullptr ? getenv("XDG_RUNTIME_DIR") : "";
  unsetenv("HOME");  // no names that other users cannot take
  unsetenv("XDG_RUNTIME_DIR");
  cm_channel channel;
  std::uint16_t port = 0;
  {
    cm_id asking(channel);
    port = asking.listen();
  }
  child_process squatter([&](stream& parent) {
    if (setuid(stranger) != 0) return 1;
    const std::string end = ".0.106." + std::to_string(port);
    if (take_name("verbena-cm-port" + end) != 0) return 2;
    if (take_name("verbena-cm-at" + end + ".47f000001.e0") != 0) return 3;
    // Of a name that exists several times, one copy does not matter.
    if (take_name("verbena-cm-addr" + end + ".47f000001.e0") != 0) return 4;
    parent.meet();
    parent.meet();
    return 0;
  });
  squatter.to().meet();
  {
    cm_id id(channel);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(id.bind(port), EADDRINUSE);
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("its name is held by user 54321 (pid " + std::to_string(squatter.pid())),
              std::string::npos)
        << log;
    EXPECT_EQ(id.bind(port, second_host), 0) << "an address whose names are free";
  }
  squatter.to().meet();
  EXPECT_EQ(squatter.join(), 0);
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
  if (!runtime.empty()) setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);
}

}  // namespace
}  // namespace verbena::softdev::testing
