// SPDX-License-Identifier: MIT
// The parameters of the transfer of one copy.
#pragma once

#include <cstdint>
#include <string>

#include "examples/rcopy/options.hpp"
#include "examples/rcopy/protocol.hpp"
#include "verbena/verbs/context.hpp"

namespace rcopy {

/// The side of this process in a copy.
enum class side : std::uint8_t { client, server };

/// The agreed parameters, and the objects of this side.
struct transfer_parameters {
  transport over = transport::rdma;
  rcopy::side side = side::client;
  rcopy::flow flow;
  /// For `rdma`: the device. Borrowed.
  const verbena::context* device = nullptr;
  /// For `cm`: the name of the device that the route must use; empty: any.
  std::string device_name = {};
};

}  // namespace rcopy
