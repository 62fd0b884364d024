// SPDX-License-Identifier: MIT
// How the data of one copy crosses.
#pragma once

#include <cstdint>
#include <string>

#include "examples/rcopy/options.hpp"
#include "examples/rcopy/protocol.hpp"
#include "verbena/verbs/context.hpp"

namespace rcopy {

/// Who asked for the copy, and who was asked.
enum class side : std::uint8_t { client, server };

/// What both sides agreed on, and what this one brings along.
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
