// SPDX-License-Identifier: MIT
// Capabilities of ports, as typed sets of flags.
// Enumerators have the names of verbs.h in lower case. Flags that the oldest supported rdma-core
// does not define are written as numbers.
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
  opt_ipd_sup = 1U << 4,                 ///< optional inter-packet delays
  auto_migr_sup = 1U << 5,               ///< automatic path migration
  sl_map_sup = 1U << 6,                  ///< maps service levels to virtual lanes
  mkey_nvram = 1U << 7,                  ///< keeps the management key
  pkey_nvram = 1U << 8,                  ///< keeps the P_Keys
  led_info_sup = 1U << 9,                ///< LED information
  sys_image_guid_sup = 1U << 11,         ///< a system image GUID
  pkey_sw_ext_port_trap_sup = 1U << 12,  ///< traps for P_Keys at a switch's external ports
  extended_speeds_sup = 1U << 14,        ///< FDR and faster
  cap_mask2_sup = 1U << 15,              ///< has more capabilities: port_capability2
  cm_sup = 1U << 16,                     ///< the connection manager
  snmp_tunnel_sup = 1U << 17,            ///< tunnels SNMP
  reinit_sup = 1U << 18,                 ///< initialises nodes again
  device_mgmt_sup = 1U << 19,            ///< device management
  vendor_class_sup = 1U << 20,           ///< management classes of the vendor
  dr_notice_sup = 1U << 21,              ///< notices with a directed route
  cap_mask_notice_sup = 1U << 22,        ///< notices when capabilities change
  boot_mgmt_sup = 1U << 23,              ///< boot management
  link_latency_sup = 1U << 24,           ///< measures the link's latency
  client_reg_sup = 1U << 25,             ///< asks clients to register again
  ip_based_gids = 1U << 26,              ///< GIDs are made from IP addresses
};
template <>
inline constexpr bool enable_flags<port_capability> = true;

/// More capabilities of a port, of `ibv_port_attr::port_cap_flags2`. InfiniBand only.
enum class port_capability2 : std::uint16_t {
  set_node_desc_sup = 1U << 0,            ///< the node's description can be set
  info_ext_sup = 1U << 1,                 ///< extended information on ports
  virt_sup = 1U << 2,                     ///< virtualisation
  switch_port_state_table_sup = 1U << 3,  ///< a table of the states of a switch's ports
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

/// Returns `xrc | mem_window | 0x8000`. Unknown bits are hexadecimal; empty: `none`.
/// @{
[[nodiscard]] std::string to_string(flags<port_capability> set);
[[nodiscard]] std::string to_string(flags<port_capability2> set);
[[nodiscard]] std::string to_string(flags<port_flag> set);
/// @}

}  // namespace verbena::inline VERBENA_ABI
