// SPDX-License-Identifier: MIT
#include "verbena/verbs/device_capabilities.hpp"

#include <infiniband/verbs.h>

#include "src/verbs/bit_names.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

using detail::bit;
using detail::named_bit;

// The values in the header equal those in verbs.h.
static_assert(bit(device_capability::managed_flow_steering) == IBV_DEVICE_MANAGED_FLOW_STEERING);
static_assert(bit(device_capability::mem_window_type_2b) == IBV_DEVICE_MEM_WINDOW_TYPE_2B);
static_assert(bit(device_capability::pci_write_end_padding) == IBV_DEVICE_PCI_WRITE_END_PADDING);
static_assert(bit(on_demand_operation::srq_recv) == IBV_ODP_SUPPORT_SRQ_RECV);
static_assert(bit(on_demand_capability::implicit) == IBV_ODP_SUPPORT_IMPLICIT);
static_assert(bit(raw_packet_capability::delay_drop) == IBV_RAW_PACKET_CAP_DELAY_DROP);
static_assert(bit(receive_hash_field::inner) == IBV_RX_HASH_INNER);
static_assert(bit(queue_pair_kind::xrc_recv) == 1U << IBV_QPT_XRC_RECV);
static_assert(bit(atomic_size::bytes_16) == IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP);

}  // namespace

std::string to_string(flags<device_capability> set) {
  static constexpr named_bit names[] = {
      {bit(device_capability::resize_max_wr), "resize_max_wr"},
      {bit(device_capability::bad_pkey_cntr), "bad_pkey_cntr"},
      {bit(device_capability::bad_qkey_cntr), "bad_qkey_cntr"},
      {bit(device_capability::raw_multi), "raw_multi"},
      {bit(device_capability::auto_path_mig), "auto_path_mig"},
      {bit(device_capability::change_phy_port), "change_phy_port"},
      {bit(device_capability::ud_av_port_enforce), "ud_av_port_enforce"},
      {bit(device_capability::curr_qp_state_mod), "curr_qp_state_mod"},
      {bit(device_capability::shutdown_port), "shutdown_port"},
      {bit(device_capability::init_type), "init_type"},
      {bit(device_capability::port_active_event), "port_active_event"},
      {bit(device_capability::sys_image_guid), "sys_image_guid"},
      {bit(device_capability::rc_rnr_nak_gen), "rc_rnr_nak_gen"},
      {bit(device_capability::srq_resize), "srq_resize"},
      {bit(device_capability::n_notify_cq), "n_notify_cq"},
      {bit(device_capability::mem_window), "mem_window"},
      {bit(device_capability::ud_ip_csum), "ud_ip_csum"},
      {bit(device_capability::xrc), "xrc"},
      {bit(device_capability::mem_mgt_extensions), "mem_mgt_extensions"},
      {bit(device_capability::mem_window_type_2a), "mem_window_type_2a"},
      {bit(device_capability::mem_window_type_2b), "mem_window_type_2b"},
      {bit(device_capability::rc_ip_csum), "rc_ip_csum"},
      {bit(device_capability::raw_ip_csum), "raw_ip_csum"},
      {bit(device_capability::managed_flow_steering), "managed_flow_steering"},
      {bit(device_capability::raw_scatter_fcs), "raw_scatter_fcs"},
      {bit(device_capability::pci_write_end_padding), "pci_write_end_padding"},
      {bit(device_capability::flush_global), "flush_global"},
      {bit(device_capability::flush_persistent), "flush_persistent"},
      {bit(device_capability::atomic_write), "atomic_write"},
  };
  return detail::names_of_bits(set.mask(), names);
}

std::string to_string(flags<on_demand_operation> set) {
  static constexpr named_bit names[] = {
      {bit(on_demand_operation::send), "send"},
      {bit(on_demand_operation::recv), "recv"},
      {bit(on_demand_operation::write), "write"},
      {bit(on_demand_operation::read), "read"},
      {bit(on_demand_operation::atomic), "atomic"},
      {bit(on_demand_operation::srq_recv), "srq_recv"},
      {bit(on_demand_operation::flush), "flush"},
      {bit(on_demand_operation::atomic_write), "atomic_write"},
  };
  return detail::names_of_bits(set.mask(), names);
}

std::string to_string(flags<on_demand_capability> set) {
  static constexpr named_bit names[] = {
      {bit(on_demand_capability::support), "support"},
      {bit(on_demand_capability::implicit), "implicit"},
  };
  return detail::names_of_bits(set.mask(), names);
}

std::string to_string(flags<raw_packet_capability> set) {
  static constexpr named_bit names[] = {
      {bit(raw_packet_capability::cvlan_stripping), "cvlan_stripping"},
      {bit(raw_packet_capability::scatter_fcs), "scatter_fcs"},
      {bit(raw_packet_capability::ip_csum), "ip_csum"},
      {bit(raw_packet_capability::delay_drop), "delay_drop"},
  };
  return detail::names_of_bits(set.mask(), names);
}

std::string to_string(flags<receive_hash_field> set) {
  static constexpr named_bit names[] = {
      {bit(receive_hash_field::src_ipv4), "src_ipv4"},
      {bit(receive_hash_field::dst_ipv4), "dst_ipv4"},
      {bit(receive_hash_field::src_ipv6), "src_ipv6"},
      {bit(receive_hash_field::dst_ipv6), "dst_ipv6"},
      {bit(receive_hash_field::src_port_tcp), "src_port_tcp"},
      {bit(receive_hash_field::dst_port_tcp), "dst_port_tcp"},
      {bit(receive_hash_field::src_port_udp), "src_port_udp"},
      {bit(receive_hash_field::dst_port_udp), "dst_port_udp"},
      {bit(receive_hash_field::ipsec_spi), "ipsec_spi"},
      {bit(receive_hash_field::inner), "inner"},
  };
  return detail::names_of_bits(set.mask(), names);
}

std::string to_string(flags<receive_hash_function> set) {
  static constexpr named_bit names[] = {
      {bit(receive_hash_function::toeplitz), "toeplitz"},
  };
  return detail::names_of_bits(set.mask(), names);
}

std::string to_string(flags<queue_pair_kind> set) {
  static constexpr named_bit names[] = {
      {bit(queue_pair_kind::rc), "rc"},
      {bit(queue_pair_kind::uc), "uc"},
      {bit(queue_pair_kind::ud), "ud"},
      {bit(queue_pair_kind::raw_packet), "raw_packet"},
      {bit(queue_pair_kind::xrc_send), "xrc_send"},
      {bit(queue_pair_kind::xrc_recv), "xrc_recv"},
  };
  return detail::names_of_bits(set.mask(), names);
}

std::string to_string(flags<atomic_size> set) {
  static constexpr named_bit names[] = {
      {bit(atomic_size::bytes_4), "bytes_4"},
      {bit(atomic_size::bytes_8), "bytes_8"},
      {bit(atomic_size::bytes_16), "bytes_16"},
  };
  return detail::names_of_bits(set.mask(), names);
}

std::string to_string(flags<tag_matching_capability> set) {
  static constexpr named_bit names[] = {
      {bit(tag_matching_capability::rc), "rc"},
  };
  return detail::names_of_bits(set.mask(), names);
}

}  // namespace verbena::inline VERBENA_ABI
