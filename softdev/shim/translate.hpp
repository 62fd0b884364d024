// SPDX-License-Identifier: MIT
// Translates between the values of verbs.h and of softdev/core. Constants that both define have
// equal numbers, which is asserted here and in translate.cpp.
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

/// Makes a list of `count` elements at `entries`. Returns 0, or EINVAL if `count` is negative or
/// `entries` is missing.
[[nodiscard]] inline int to_list(const ibv_sge* entries, int count, sge_list& out) noexcept {
  if (count < 0 || (count > 0 && entries == nullptr)) return EINVAL;
  out = {entries, static_cast<std::uint32_t>(count)};
  return 0;
}

/// Translates a classic work request without its data, which the caller adds. Returns 0, or EINVAL
/// if the opcode or a flag is not supported.
[[nodiscard]] int to_request(const ibv_send_wr& from, send_request& to) noexcept;

/// Translates the attributes that `mask` (ibv_qp_attr_mask) names. The mask was checked.
[[nodiscard]] queue_pair_attributes to_attributes(const ibv_qp_attr& from, int mask) noexcept;

/// Translates all attributes except the address and the capabilities.
void to_qp_attr(const queue_pair_attributes& from, ibv_qp_attr& to) noexcept;

}  // namespace verbena::softdev
