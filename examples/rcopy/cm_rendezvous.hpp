// SPDX-License-Identifier: MIT
// Rendezvous of the two sides of a copy in the connection manager (rdma_cm). The server listens at
// the address to which the client has connected, with a separate port for each copy. It sends the
// port and a random token on the bring-up stream. The client presents the token in its connection
// request.
#pragma once

#include "examples/rcopy/conversation.hpp"
#include "examples/rcopy/protocol.hpp"
#include "verbena/cm/connector.hpp"
#include "verbena/cm/listener.hpp"

namespace rcopy {

/// The resolved server, and the token for the connection request.
struct resolved_server {
  verbena::cm::connector peer;
  rcopy::token token;
};

/// Receives port and token, and resolves the route to the server. Called by the client. Errors:
/// those of next_message() and connector::resolve().
[[nodiscard]] verbena::result<resolved_server> find_server(const conversation& with,
                                                           verbena::deadline until);

/// Sends port and token, and waits for the client's connection request. Rejects requests with
/// another token. Called by the server. Errors: those of listener::open() and wait_for().
[[nodiscard]] verbena::result<verbena::cm::connection_request> await_client(
    const conversation& with, verbena::deadline until);

}  // namespace rcopy
