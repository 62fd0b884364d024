// SPDX-License-Identifier: MIT
// What ports say they can do, as typed sets of bits.
// Enumerators have the names of verbs.h in lower case; bits of newer rdma-core than the
// oldest supported one are written as numbers.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/flags.hpp"

namespace verbena::inline VERBENA_ABI {

/// What a port's management can do, `IBV_PORT_…` of `ibv_port_attr::port_cap_flags`.
enum class port_capability : std::uint32_t {
  sm = 1U << 1,
  notice_sup = 1U << 2,
  trap_sup = 1U << 3,
  opt_ipd_sup = 1U << 4,
  auto_migr_sup = 1U << 5,
  sl_map_sup = 1U << 6,
  mkey_nvram = 1U << 7,
  pkey_nvram = 1U << 8,
  led_info_sup = 1U << 9,
  sys_image_guid_sup = 1U << 11,
  pkey_sw_ext_port_trap_sup = 1U << 12,
  extended_speeds_sup = 1U << 14,
  cap_mask2_sup = 1U << 15,
  cm_sup = 1U << 16,
  snmp_tunnel_sup = 1U << 17,
  reinit_sup = 1U << 18,
  device_mgmt_sup = 1U << 19,
  vendor_class_sup = 1U << 20,
  dr_notice_sup = 1U << 21,
  cap_mask_notice_sup = 1U << 22,
  boot_mgmt_sup = 1U << 23,
  link_latency_sup = 1U << 24,
  client_reg_sup = 1U << 25,
  ip_based_gids = 1U << 26,
};
template <>
inline constexpr bool enable_flags<port_capability> = true;

/// More of it, of `ibv_port_attr::port_cap_flags2`. Filled on InfiniBand only.
enum class port_capability2 : std::uint16_t {
  set_node_desc_sup = 1U << 0,
  info_ext_sup = 1U << 1,
  virt_sup = 1U << 2,
  switch_port_state_table_sup = 1U << 3,
  link_width_2x_sup = 1U << 4,
  link_speed_hdr_sup = 1U << 5,
  link_speed_ndr_sup = 1U << 10,
  link_speed_xdr_sup = 1U << 12,
};
template <>
inline constexpr bool enable_flags<port_capability2> = true;

/// How a port is to be used, `IBV_QPF_…` of `ibv_port_attr::flags`.
enum class port_flag : std::uint8_t {
  grh_required = 1U << 0,  ///< every packet needs a global route header
};
template <>
inline constexpr bool enable_flags<port_flag> = true;

/// `xrc | mem_window | 0x8000`: names, unknown bits in hexadecimal; `none` if empty.
[[nodiscard]] std::string to_string(flags<port_capability> set);
[[nodiscard]] std::string to_string(flags<port_capability2> set);
[[nodiscard]] std::string to_string(flags<port_flag> set);

}  // namespace verbena::inline VERBENA_ABI
