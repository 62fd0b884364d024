// SPDX-License-Identifier: MIT
// Membership of queue pairs in multicast groups.
#include "src/verbs/multicast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "verbena/verbs/queue_pair_base.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

std::string explain_refused_group(int code, const gid& group) {
  if (code == EINVAL && !is_multicast(group))
    return fmt::format("{} is not a multicast GID: ff00::/8, or ::ffff:224.0.0.0/100 on RoCE v2",
                       to_string(group));
  if (code == EINVAL)
    return "the LID is not that of a multicast group, or the queue pair is not attached to it";
  if (code == ENOMEM)
    return "the limit of multicast groups (max_multicast_groups) or of members of the group "
           "(max_group_members) is reached";
  return {};
}

template <class Verb>
result<void> change_group(const Verb& verb, const queue_pair_base& which, const gid& group,
                          lid group_lid) {
  ibv_gid address{};
  std::ranges::copy(group.bytes(), address.raw);
  const auto status = call(verb, which.native(), &address, group_lid.value());
  if (!status.failed) return {};
  return error::from_errno(status.code, verb.name(), which.name(),
                           explain_refused_group(status.code, group));
}

}  // namespace

bool is_multicast(const gid& address) noexcept {
  const auto& bytes = address.bytes();
  return bytes[0] == 0xff || (address.is_ipv4_mapped() && (bytes[12] & 0xf0) == 0xe0);
}

result<void> attach_to_group(queue_pair_base& which, const gid& group, lid group_lid) {
  return change_group(which.state().verbs().attach_mcast, which, group, group_lid);
}

result<void> detach_from_group(queue_pair_base& which, const gid& group, lid group_lid) {
  return change_group(which.state().verbs().detach_mcast, which, group, group_lid);
}

}  // namespace verbena::inline VERBENA_ABI::detail
