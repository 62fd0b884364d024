// SPDX-License-Identifier: MIT
// Capabilities of devices. Enumerators have the names of verbs.h in lower case. Their values are
// numbers, because older rdma-core does not define all of them.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/flags.hpp"

namespace verbena::inline VERBENA_ABI {

/// Capabilities of a device, `IBV_DEVICE_…` of `ibv_device_attr::device_cap_flags` (bits 0 to 31)
/// and of `ibv_device_attr_ex::device_cap_flags_ex` (all). Source: ibv_query_device(3).
enum class device_capability : std::uint64_t {
  resize_max_wr = std::uint64_t{1} << 0,           ///< work queues can be resized
  bad_pkey_cntr = std::uint64_t{1} << 1,           ///< counts wrong P_Keys
  bad_qkey_cntr = std::uint64_t{1} << 2,           ///< counts wrong Q_Keys
  raw_multi = std::uint64_t{1} << 3,               ///< multicast of raw packets
  auto_path_mig = std::uint64_t{1} << 4,           ///< automatic path migration
  change_phy_port = std::uint64_t{1} << 5,         ///< queue pairs can change the port
  ud_av_port_enforce = std::uint64_t{1} << 6,      ///< checks the port of UD address vectors
  curr_qp_state_mod = std::uint64_t{1} << 7,       ///< ibv_modify_qp(3) checks the current state
  shutdown_port = std::uint64_t{1} << 8,           ///< ports can be shut down
  init_type = std::uint64_t{1} << 9,               ///< supports InitType and InitTypeReply
  port_active_event = std::uint64_t{1} << 10,      ///< PORT_ACTIVE events
  sys_image_guid = std::uint64_t{1} << 11,         ///< has a system image GUID
  rc_rnr_nak_gen = std::uint64_t{1} << 12,         ///< RC sends RNR NAKs
  srq_resize = std::uint64_t{1} << 13,             ///< shared receive queues can be resized
  n_notify_cq = std::uint64_t{1} << 14,            ///< one event for N completions
  mem_window = std::uint64_t{1} << 17,             ///< memory windows of type 1
  ud_ip_csum = std::uint64_t{1} << 18,             ///< IP checksums for UD
  xrc = std::uint64_t{1} << 20,                    ///< extended reliable connections
  mem_mgt_extensions = std::uint64_t{1} << 21,     ///< invalidate with send, local invalidate
  mem_window_type_2a = std::uint64_t{1} << 23,     ///< memory windows of type 2A
  mem_window_type_2b = std::uint64_t{1} << 24,     ///< memory windows of type 2B
  rc_ip_csum = std::uint64_t{1} << 25,             ///< IP checksums for RC
  raw_ip_csum = std::uint64_t{1} << 26,            ///< IP checksums for raw packets
  managed_flow_steering = std::uint64_t{1} << 29,  ///< flow steering by rules
  raw_scatter_fcs = std::uint64_t{1} << 34,  ///< delivers the frame check sequence of raw packets
  pci_write_end_padding = std::uint64_t{1} << 36,  ///< pads PCI writes to the cache line
  flush_global = std::uint64_t{1} << 38,           ///< FLUSH to global visibility
  flush_persistent = std::uint64_t{1} << 39,       ///< FLUSH to persistence
  atomic_write = std::uint64_t{1} << 40,           ///< ATOMIC WRITE
};
template <>
inline constexpr bool enable_flags<device_capability> = true;

/// Operations of a transport on memory with on-demand paging, `IBV_ODP_SUPPORT_…`.
enum class on_demand_operation : std::uint32_t {
  send = 1U << 0,          ///< SEND
  recv = 1U << 1,          ///< receives
  write = 1U << 2,         ///< RDMA WRITE
  read = 1U << 3,          ///< RDMA READ
  atomic = 1U << 4,        ///< atomic operations
  srq_recv = 1U << 5,      ///< receives of a shared receive queue
  flush = 1U << 6,         ///< FLUSH
  atomic_write = 1U << 7,  ///< ATOMIC WRITE
};
template <>
inline constexpr bool enable_flags<on_demand_operation> = true;

/// General capabilities of on-demand paging, `ibv_odp_general_caps`.
enum class on_demand_capability : std::uint64_t {
  support = std::uint64_t{1} << 0,   ///< regions with on-demand paging
  implicit = std::uint64_t{1} << 1,  ///< a region of the whole address space
};
template <>
inline constexpr bool enable_flags<on_demand_capability> = true;

/// Capabilities of raw packet queues, `IBV_RAW_PACKET_CAP_…`.
enum class raw_packet_capability : std::uint32_t {
  cvlan_stripping = 1U << 0,  ///< removes the VLAN tag, and reports it in the completion
  scatter_fcs = 1U << 1,      ///< delivers the frame check sequence
  ip_csum = 1U << 2,          ///< IP checksums
  delay_drop = 1U << 3,       ///< waits for a receive before it drops a packet
};
template <>
inline constexpr bool enable_flags<raw_packet_capability> = true;

/// Packet fields that receive side scaling hashes, `IBV_RX_HASH_…`.
enum class receive_hash_field : std::uint64_t {
  src_ipv4 = std::uint64_t{1} << 0,      ///< the sender's IPv4 address
  dst_ipv4 = std::uint64_t{1} << 1,      ///< the receiver's IPv4 address
  src_ipv6 = std::uint64_t{1} << 2,      ///< the sender's IPv6 address
  dst_ipv6 = std::uint64_t{1} << 3,      ///< the receiver's IPv6 address
  src_port_tcp = std::uint64_t{1} << 4,  ///< the sender's TCP port
  dst_port_tcp = std::uint64_t{1} << 5,  ///< the receiver's TCP port
  src_port_udp = std::uint64_t{1} << 6,  ///< the sender's UDP port
  dst_port_udp = std::uint64_t{1} << 7,  ///< the receiver's UDP port
  ipsec_spi = std::uint64_t{1} << 8,     ///< the security parameters index of IPsec
  inner = std::uint64_t{1} << 31,        ///< fields of the inner packet of a tunnel
};
template <>
inline constexpr bool enable_flags<receive_hash_field> = true;

/// Hash functions for receive side scaling, `IBV_RX_HASH_FUNC_…`.
enum class receive_hash_function : std::uint8_t {
  toeplitz = 1U << 0,  ///< the Toeplitz hash
};
template <>
inline constexpr bool enable_flags<receive_hash_function> = true;

/// Types of queue pairs: bit n is the `ibv_qp_type` n.
enum class queue_pair_kind : std::uint32_t {
  rc = 1U << 2,          ///< reliable connections
  uc = 1U << 3,          ///< unreliable connections
  ud = 1U << 4,          ///< unreliable datagrams
  raw_packet = 1U << 8,  ///< raw packets
  xrc_send = 1U << 9,    ///< extended reliable connections, sending
  xrc_recv = 1U << 10,   ///< extended reliable connections, receiving
};
template <>
inline constexpr bool enable_flags<queue_pair_kind> = true;

/// Operand sizes of PCI atomic operations, `ibv_pci_atomic_op_size`.
enum class atomic_size : std::uint16_t {
  bytes_4 = 1U << 0,   ///< 4 bytes
  bytes_8 = 1U << 1,   ///< 8 bytes
  bytes_16 = 1U << 2,  ///< 16 bytes
};
template <>
inline constexpr bool enable_flags<atomic_size> = true;

/// Capabilities of tag matching, `IBV_TM_CAP_…`.
enum class tag_matching_capability : std::uint32_t {
  rc = 1U << 0,  ///< on reliable connections
};
template <>
inline constexpr bool enable_flags<tag_matching_capability> = true;

/// Returns `xrc | mem_window | 0x8000`. Unknown bits are hexadecimal. The empty set is `none`.
/// @{
[[nodiscard]] std::string to_string(flags<device_capability> set);
[[nodiscard]] std::string to_string(flags<on_demand_operation> set);
[[nodiscard]] std::string to_string(flags<on_demand_capability> set);
[[nodiscard]] std::string to_string(flags<raw_packet_capability> set);
[[nodiscard]] std::string to_string(flags<receive_hash_field> set);
[[nodiscard]] std::string to_string(flags<receive_hash_function> set);
[[nodiscard]] std::string to_string(flags<queue_pair_kind> set);
[[nodiscard]] std::string to_string(flags<atomic_size> set);
[[nodiscard]] std::string to_string(flags<tag_matching_capability> set);
/// @}

}  // namespace verbena::inline VERBENA_ABI
