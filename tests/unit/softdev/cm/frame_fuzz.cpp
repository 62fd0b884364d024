// SPDX-License-Identifier: MIT
// Frames of the connection manager that another process may send.
#include "softdev/cm/frame.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "tests/fuzz/target.hpp"

namespace verbena::softdev::cm {
namespace {

using fuzz::require;

std::array<int, 2> socket_pair() {
  std::array<int, 2> made{};
  require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made.data()) == 0);
  return made;
}

/// A received frame is within its ranges, and can be sent and received again.
void check(const frame& got) {
  require(got.data.length <= private_limit(got.kind));
  require(got.from.queue_pair <= 0xff'ffff && got.from.starting_psn <= 0xff'ffff);
  require(got.from.retry_count <= 7 && got.from.rnr_retry_count <= 7);
  static const auto ends = socket_pair();
  require(send_frame(ends[0], got) == send_outcome::sent);
  frame again;
  require(receive_frame(ends[1], again) == receive_outcome::received);
  require(again.kind == got.kind && again.from.queue_pair == got.from.queue_pair &&
          again.data.length == got.data.length && again.data.bytes == got.data.bytes);
}

void run_cm_frame(fuzz::input input) {
  static const auto ends = socket_pair();
  if (input.empty() || ::send(ends[0], input.data(), input.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
    return;
  frame got;
  const receive_outcome outcome = receive_frame(ends[1], got);
  require(outcome != receive_outcome::nothing && outcome != receive_outcome::ended);
  if (outcome == receive_outcome::received) check(got);
}

void frame_seeds(fuzz::seed_folder& into) {
  const auto add = [&](const char* name, frame what) {
    const auto ends = socket_pair();
    what.source.port = 7471;
    require(send_frame(ends[0], what) == send_outcome::sent);
    std::vector<std::byte> bytes(4096);
    const auto count = ::recv(ends[1], bytes.data(), bytes.size(), MSG_DONTWAIT);
    require(count > 0);
    into.add(name, std::span(bytes).first(static_cast<std::size_t>(count)));
    for (const int end : ends) ::close(end);
  };
  for (const auto& [name, kind] :
       {std::pair{"request", frame_kind::request}, std::pair{"reply", frame_kind::reply},
        std::pair{"ready", frame_kind::ready}, std::pair{"rejection", frame_kind::rejection},
        std::pair{"disconnect", frame_kind::disconnect},
        std::pair{"sidr_request", frame_kind::sidr_request},
        std::pair{"sidr_reply", frame_kind::sidr_reply}}) {
    frame what{.kind = kind};
    what.from.queue_pair = 17;
    what.data.length = private_limit(kind);
    add(name, what);
  }
  add("ipv6", {.space = port_space::udp,
               .source = {.family = address_family::ipv6},
               .destination = {.family = address_family::ipv6}});
}

const fuzz::target cm_frames("cm_frame", run_cm_frame, frame_seeds);

}  // namespace
}  // namespace verbena::softdev::cm
