// SPDX-License-Identifier: MIT
// Capabilities of ports. Enumerators have the names of verbs.h in lower case. Their values are
// numbers, because older rdma-core does not define all of them.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/flags.hpp"

namespace verbena::inline VERBENA_ABI {

/// Capabilities of a port, `IBV_PORT_…` of `ibv_port_attr::port_cap_flags`.
enum class port_capability : std::uint32_t {
  sm = 1U << 1,                          ///< a subnet manager runs here
  notice_sup = 1U << 2,                  ///< notices
  trap_sup = 1U << 3,                    ///< traps
  opt_ipd_sup = 1U << 4,                 ///< optional interpacket delays
  auto_migr_sup = 1U << 5,               ///< automatic path migration
  sl_map_sup = 1U << 6,                  ///< mapping of service levels to virtual lanes
  mkey_nvram = 1U << 7,                  ///< the M_Key is in nonvolatile memory
  pkey_nvram = 1U << 8,                  ///< the P_Keys are in nonvolatile memory
  led_info_sup = 1U << 9,                ///< LED information
  sys_image_guid_sup = 1U << 11,         ///< a system image GUID
  pkey_sw_ext_port_trap_sup = 1U << 12,  ///< P_Key traps of external switch ports
  extended_speeds_sup = 1U << 14,        ///< FDR and faster
  cap_mask2_sup = 1U << 15,              ///< `port_cap_flags2` is valid
  cm_sup = 1U << 16,                     ///< communication management
  snmp_tunnel_sup = 1U << 17,            ///< SNMP tunneling
  reinit_sup = 1U << 18,                 ///< reinitialization of nodes
  device_mgmt_sup = 1U << 19,            ///< device management
  vendor_class_sup = 1U << 20,           ///< vendor management classes
  dr_notice_sup = 1U << 21,              ///< notices with a directed route
  cap_mask_notice_sup = 1U << 22,        ///< notices of changed capabilities
  boot_mgmt_sup = 1U << 23,              ///< boot management
  link_latency_sup = 1U << 24,           ///< measurement of the round-trip latency of the link
  client_reg_sup = 1U << 25,             ///< requests that clients register again
  ip_based_gids = 1U << 26,              ///< GIDs contain IP addresses
};
template <>
inline constexpr bool enable_flags<port_capability> = true;

/// More capabilities of a port, of `ibv_port_attr::port_cap_flags2`. InfiniBand only.
enum class port_capability2 : std::uint16_t {
  set_node_desc_sup = 1U << 0,            ///< the node description can be set
  info_ext_sup = 1U << 1,                 ///< extended port information
  virt_sup = 1U << 2,                     ///< virtualization
  switch_port_state_table_sup = 1U << 3,  ///< a table of the states of the switch ports
  link_width_2x_sup = 1U << 4,            ///< links of two lanes
  link_speed_hdr_sup = 1U << 5,           ///< HDR
  link_speed_ndr_sup = 1U << 10,          ///< NDR
  link_speed_xdr_sup = 1U << 12,          ///< XDR
};
template <>
inline constexpr bool enable_flags<port_capability2> = true;

/// Requirements of a port, `IBV_QPF_…` of `ibv_port_attr::flags`.
enum class port_flag : std::uint8_t {
  grh_required = 1U << 0,  ///< every packet needs a global route header
};
template <>
inline constexpr bool enable_flags<port_flag> = true;

/// Returns `sm | cm_sup | 0x8000000`. Unknown bits are hexadecimal. The empty set is `none`.
/// @{
[[nodiscard]] std::string to_string(flags<port_capability> set);
[[nodiscard]] std::string to_string(flags<port_capability2> set);
[[nodiscard]] std::string to_string(flags<port_flag> set);
/// @}

}  // namespace verbena::inline VERBENA_ABI
