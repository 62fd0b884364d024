// SPDX-License-Identifier: MIT
#include "verbena/verbs/port_capabilities.hpp"

#include <infiniband/verbs.h>

#include "src/verbs/bit_names.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

using detail::bit;
using detail::named_bit;

// The values in the header equal those in verbs.h.
static_assert(bit(port_capability::ip_based_gids) == IBV_PORT_IP_BASED_GIDS);
static_assert(bit(port_capability::extended_speeds_sup) == IBV_PORT_EXTENDED_SPEEDS_SUP);
static_assert(bit(port_flag::grh_required) == IBV_QPF_GRH_REQUIRED);

}  // namespace

std::string to_string(flags<port_capability> set) {
  static constexpr named_bit names[] = {
      {bit(port_capability::sm), "sm"},
      {bit(port_capability::notice_sup), "notice_sup"},
      {bit(port_capability::trap_sup), "trap_sup"},
      {bit(port_capability::opt_ipd_sup), "opt_ipd_sup"},
      {bit(port_capability::auto_migr_sup), "auto_migr_sup"},
      {bit(port_capability::sl_map_sup), "sl_map_sup"},
      {bit(port_capability::mkey_nvram), "mkey_nvram"},
      {bit(port_capability::pkey_nvram), "pkey_nvram"},
      {bit(port_capability::led_info_sup), "led_info_sup"},
      {bit(port_capability::sys_image_guid_sup), "sys_image_guid_sup"},
      {bit(port_capability::pkey_sw_ext_port_trap_sup), "pkey_sw_ext_port_trap_sup"},
      {bit(port_capability::extended_speeds_sup), "extended_speeds_sup"},
      {bit(port_capability::cap_mask2_sup), "cap_mask2_sup"},
      {bit(port_capability::cm_sup), "cm_sup"},
      {bit(port_capability::snmp_tunnel_sup), "snmp_tunnel_sup"},
      {bit(port_capability::reinit_sup), "reinit_sup"},
      {bit(port_capability::device_mgmt_sup), "device_mgmt_sup"},
      {bit(port_capability::vendor_class_sup), "vendor_class_sup"},
      {bit(port_capability::dr_notice_sup), "dr_notice_sup"},
      {bit(port_capability::cap_mask_notice_sup), "cap_mask_notice_sup"},
      {bit(port_capability::boot_mgmt_sup), "boot_mgmt_sup"},
      {bit(port_capability::link_latency_sup), "link_latency_sup"},
      {bit(port_capability::client_reg_sup), "client_reg_sup"},
      {bit(port_capability::ip_based_gids), "ip_based_gids"},
  };
  return detail::names_of_bits(set.mask(), names);
}

std::string to_string(flags<port_capability2> set) {
  static constexpr named_bit names[] = {
      {bit(port_capability2::set_node_desc_sup), "set_node_desc_sup"},
      {bit(port_capability2::info_ext_sup), "info_ext_sup"},
      {bit(port_capability2::virt_sup), "virt_sup"},
      {bit(port_capability2::switch_port_state_table_sup), "switch_port_state_table_sup"},
      {bit(port_capability2::link_width_2x_sup), "link_width_2x_sup"},
      {bit(port_capability2::link_speed_hdr_sup), "link_speed_hdr_sup"},
      {bit(port_capability2::link_speed_ndr_sup), "link_speed_ndr_sup"},
      {bit(port_capability2::link_speed_xdr_sup), "link_speed_xdr_sup"},
  };
  return detail::names_of_bits(set.mask(), names);
}

std::string to_string(flags<port_flag> set) {
  static constexpr named_bit names[] = {
      {bit(port_flag::grh_required), "grh_required"},
  };
  return detail::names_of_bits(set.mask(), names);
}

}  // namespace verbena::inline VERBENA_ABI
