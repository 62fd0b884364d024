// SPDX-License-Identifier: MIT
// Frames of the connection manager that another process may send.
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "softdev/cm/frame.hpp"

namespace verbena::softdev::cm {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// A received frame is within its ranges, and can be sent and received again.
void check(const frame& got) {
  require(got.data.length <= private_limit(got.kind));
  require(got.from.queue_pair <= 0xff'ffff && got.from.starting_psn <= 0xff'ffff);
  require(got.from.retry_count <= 7 && got.from.rnr_retry_count <= 7);
  static const auto ends = [] {
    std::array<int, 2> made{};
    require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made.data()) == 0);
    return made;
  }();
  require(send_frame(ends[0], got) == send_outcome::sent);
  frame again;
  require(receive_frame(ends[1], again) == receive_outcome::received);
  require(again.kind == got.kind && again.from.queue_pair == got.from.queue_pair &&
          again.data.length == got.data.length && again.data.bytes == got.data.bytes);
}

}  // namespace
}  // namespace verbena::softdev::cm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbena::softdev::cm;
  static const auto ends = [] {
    std::array<int, 2> made{};
    require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made.data()) == 0);
    return made;
  }();
  if (size == 0 || ::send(ends[0], data, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return 0;
  frame got;
  const receive_outcome outcome = receive_frame(ends[1], got);
  require(outcome != receive_outcome::nothing && outcome != receive_outcome::ended);
  if (outcome == receive_outcome::received) check(got);
  return 0;
}
