// SPDX-License-Identifier: MIT
// A listening TCP socket for servers that do not use the protocol of Verbena.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "verbena/base/bytes.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::test {

/// A blocking socket that listens at a free port of 127.0.0.1.
struct loopback_listener {
  loopback_listener() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = network_order(std::uint32_t{INADDR_LOOPBACK});
    socklen_t bytes = sizeof at;
    void* const name = &at;
    EXPECT_EQ(::bind(socket.get(), static_cast<sockaddr*>(name), bytes), 0);
    EXPECT_EQ(::listen(socket.get(), 16), 0);
    EXPECT_EQ(::getsockname(socket.get(), static_cast<sockaddr*>(name), &bytes), 0);
    port = network_order(at.sin_port);
  }

  unique_fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port = 0;
};

}  // namespace verbena::test
