// SPDX-License-Identifier: MIT
// Multicast groups: attaching and detaching queue pairs.
#include <infiniband/verbs.h>

#include <cerrno>

#include "softdev/core/transport/rules.hpp"
#include "softdev/shim/address.hpp"
#include "softdev/shim/answers.hpp"
#include "softdev/shim/not_supported.hpp"
#include "softdev/shim/objects.hpp"

namespace verbena::softdev {
namespace {

constexpr std::uint16_t multicast_lids = 0xc000;  // 0xffff is not the LID of a group

// Returns whether the kernel accepts the group: ib_attach_mcast().
bool is_group(const qp_object& object, const ibv_gid& gid, std::uint16_t lid) noexcept {
  if (!rules_of(object.core->transport()).routed || !is_multicast(to_gid_bytes(gid))) return false;
  if (object.context_of->host->persona().kind != persona_kind::infiniband) return true;
  return lid >= multicast_lids && lid != 0xffff;
}

}  // namespace
}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  qp_object& object = object_of(qp);
  if (!working(*object.context_of)) return errno;
  if (object.context_of->host->persona().kind == persona_kind::efa)
    return refuse(refusals::groups_of_efa);
  if (gid == nullptr || !is_group(object, *gid, lid)) return EINVAL;
  return object.context_of->host->groups().attach(*object.core, to_gid_bytes(*gid));
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  qp_object& object = object_of(qp);
  if (!usable(*object.context_of)) return ENODEV;
  if (gid == nullptr || !is_group(object, *gid, lid)) return EINVAL;
  return object.context_of->host->groups().detach(*object.core, to_gid_bytes(*gid));
}

}  // extern "C"
