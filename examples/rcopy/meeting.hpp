// SPDX-License-Identifier: MIT
// How the two sides of a conversation find each other in the connection manager (rdma_cm). The
// server listens at the address that the client has reached it by, on a port of its own for each
// copy, and says in the conversation which one it is, with a token that nobody else knows.
#pragma once

#include <array>
#include <cstddef>

#include "examples/rcopy/conversation.hpp"
#include "verbena/cm/connector.hpp"
#include "verbena/cm/listener.hpp"

namespace rcopy {

/// The first bytes of the private data of the client's request.
using token = std::array<std::byte, 16>;

/// Where the client connects to, and how it shows who it is.
struct invitation {
  verbena::cm::connector peer;
  rcopy::token token;
};

/// For the client: finds the server, and the device that reaches it. Errors: those of
/// next_message() and connector::resolve().
[[nodiscard]] verbena::result<invitation> find_server(const conversation& with,
                                                      verbena::deadline until);

/// For the server: invites the client and waits for its request. Others that come are rejected.
/// Errors: those of listener::open() and wait_for().
[[nodiscard]] verbena::result<verbena::cm::connection_request> await_client(
    const conversation& with, verbena::deadline until);

}  // namespace rcopy
