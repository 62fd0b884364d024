// SPDX-License-Identifier: MIT
#include "softdev/peers/slot_claim.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "softdev/shm/segment_layout.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev {

namespace {
constexpr int backlog = 128;

local_name name_of(std::uint32_t slot) noexcept {
  return local_name("verbena-soft0.%u.%u", static_cast<unsigned>(::geteuid()), slot);
}
}  // namespace

result<slot_claim> slot_claim::take() {
  auto [listener, failed] = new_local_socket();
  if (failed != 0) return error::from_errno(failed, "socket", "slot of soft0");
  const std::uint32_t first = random_u32() % slot_count;
  for (std::uint32_t step = 0; step < slot_count; ++step) {
    const std::uint32_t slot = (first + step) % slot_count;
    const local_name name = name_of(slot);
    if (::bind(listener.get(), name.get(), name.length()) != 0) {
      if (errno == EADDRINUSE) continue;
      return error::from_errno(errno, "bind", "slot of soft0");
    }
    if (::listen(listener.get(), backlog) != 0) {
      return error::from_errno(errno, "listen", "slot of soft0");
    }
    return slot_claim(std::move(listener), slot);
  }
  return error::unavailable(
      EADDRINUSE, "bind", "soft0",
      "1024 processes of this user have the software device open; close some of them");
}

unique_fd slot_claim::accept() noexcept { return accept_own_user(listener_.get(), backlog).socket; }

socket_or_error connect_to_slot(std::uint32_t slot) noexcept {
  return connect_to_name(name_of(slot));
}

slot_holder find_slot_holder(std::uint32_t slot) noexcept {
  const socket_or_error made = connect_to_slot(slot);
  if (made.error != 0) return {.error = made.error};
  return {.pid = identify_peer(made.socket.get()).pid};
}

}  // namespace verbena::softdev
