// SPDX-License-Identifier: MIT
// How the data of one copy crosses.
#pragma once

#include <cstdint>
#include <string>

#include "examples/rcopy/options.hpp"
#include "examples/rcopy/protocol.hpp"
#include "verbena/verbs/context.hpp"

namespace rcopy {

/// The side that requested the copy, or the side that received the request.
enum class side : std::uint8_t { client, server };

/// The agreed parameters, and the objects of this side.
struct way {
  transport over = transport::rdma;
  rcopy::side side = side::client;
  rcopy::flow flow;
  /// For `rdma`: the device. Borrowed.
  const verbena::context* device = nullptr;
  /// For `cm`, where the route decides: the device that it has to be; empty: any.
  std::string device_name = {};
};

}  // namespace rcopy
