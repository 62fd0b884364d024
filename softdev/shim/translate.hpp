// SPDX-License-Identifier: MIT
// Between the values of verbs.h and those of softdev/core. The numbers are the same where both have
// a name for a thing; that is asserted here.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>

#include "softdev/core/attributes.hpp"
#include "softdev/core/completion_queue.hpp"
#include "softdev/core/work_queue.hpp"

namespace verbena::softdev {

static_assert(sizeof(ibv_sge) == sizeof(sge) && offsetof(ibv_sge, addr) == offsetof(sge, address) &&
              offsetof(ibv_sge, length) == offsetof(sge, length) &&
              offsetof(ibv_sge, lkey) == offsetof(sge, lkey));

/// Translates a completion. On failure only wr_id, status, qp_num and vendor_err are defined.
inline void to_wc(const completion& from, ibv_wc& to) noexcept {
  to = {};
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.vendor_err = from.vendor_error;
  to.byte_len = from.byte_count;
  to.imm_data = from.immediate;
  to.qp_num = from.qp_num;
  to.src_qp = from.source_qp;
  to.wc_flags = from.flags;
  to.slid = from.source_lid;
  to.sl = from.service_level;
  to.dlid_path_bits = from.path_bits;
}

/// `count` elements at `entries`: 0, or EINVAL when that makes no sense.
[[nodiscard]] inline int to_list(const ibv_sge* entries, int count, sge_list& out) noexcept {
  if (count < 0 || (count > 0 && entries == nullptr)) return EINVAL;
  out = {entries, static_cast<std::uint32_t>(count)};
  return 0;
}

/// The request of a classic work request: 0, or EINVAL for an opcode or flags that do not exist
/// here. Its data are added by the caller.
[[nodiscard]] int to_request(const ibv_send_wr& from, send_request& to) noexcept;

/// The attributes that `mask` (ibv_qp_attr_mask) names. The mask was checked.
[[nodiscard]] queue_pair_attributes to_attributes(const ibv_qp_attr& from, int mask) noexcept;

/// All attributes, without the address and the capabilities.
void to_qp_attr(const queue_pair_attributes& from, ibv_qp_attr& to) noexcept;

}  // namespace verbena::softdev
