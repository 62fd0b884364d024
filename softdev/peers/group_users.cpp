// SPDX-License-Identifier: MIT
#include "softdev/peers/group_users.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "softdev/ipc/local_socket.hpp"
#include "softdev/shm/segment_layout.hpp"

namespace verbena::softdev {
namespace {

local_name name_of_group_user(std::uint32_t slot) noexcept {
  return local_name("verbena-groups.%u.%u", static_cast<unsigned>(::geteuid()), slot);
}

/// Takes the name. Nobody is ever accepted: that one can connect says it all.
socket_or_error claim_group_name(std::uint32_t slot) noexcept {
  socket_or_error made = new_local_socket();
  if (!made.socket) return made;
  const local_name name = name_of_group_user(slot);
  // A forked child of the slot's last holder may have it still: others find the slot by that, too.
  if (::bind(made.socket.get(), name.get(), name.length()) != 0)
    return errno == EADDRINUSE ? std::move(made) : socket_or_error{{}, errno};
  if (::listen(made.socket.get(), 1) != 0) return {{}, errno};
  return made;
}

/// True when somebody holds the name: our user or another, which pairing finds out.
bool is_group_user(std::uint32_t slot) noexcept {
  const socket_or_error made = connect_to_name(name_of_group_user(slot));
  return made.socket || made.error == EAGAIN;
}

}  // namespace

result<std::vector<std::uint32_t>> group_users::meet() {
  const std::lock_guard lock(mutex_);
  if (!own_name_) {
    auto [claimed, failed] = claim_group_name(own_slot_);
    if (failed != 0) return error::from_errno(failed, "socket", "multicast groups of soft0");
    own_name_ = std::move(claimed);
  }
  std::vector<std::uint32_t> found;
  for (std::uint32_t other = 0; other < slot_count; ++other)
    if (other != own_slot_ && is_group_user(other)) found.push_back(other);
  return found;
}

}  // namespace verbena::softdev
