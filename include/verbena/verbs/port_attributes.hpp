// SPDX-License-Identifier: MIT
// What a port of a device looks like now.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/enum_bits.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/verbs/mtu.hpp"
#include "verbena/verbs/port_capabilities.hpp"

namespace verbena::inline VERBENA_ABI {

/// The logical state of a port. Data flows when it is active.
enum class port_state : std::uint8_t {
  no_change,     ///< of requests only
  down,          ///< no link
  initialize,    ///< a link, but no subnet manager has been there
  armed,         ///< set up by the subnet manager, about to become active
  active,        ///< data flows
  active_defer,  ///< active, with a link that is recovering
};

/// What carries the port's packets.
enum class link_layer : std::uint8_t {
  unspecified,  ///< the provider does not say: InfiniBand, or none of both
  infiniband,   ///< InfiniBand
  ethernet,     ///< Ethernet: RoCE, iWARP
};

/// The physical state of a port's link.
enum class physical_state : std::uint8_t {
  sleep = 1,               ///< without power to the link
  polling,                 ///< looks for a partner
  disabled,                ///< switched off
  configuration_training,  ///< agrees with its partner on width and speed
  link_up,                 ///< works
  link_error_recovery,     ///< trains again after errors
  phy_test,                ///< under test
};

/// How many lanes the link has. Values as in `ibv_port_attr::active_width`.
enum class link_width : std::uint8_t {
  x1 = 1,   ///< one lane
  x4 = 2,   ///< four lanes
  x8 = 4,   ///< eight lanes
  x12 = 8,  ///< twelve lanes
  x2 = 16,  ///< two lanes
};

/// How fast one lane is. Values as in `ibv_port_attr::active_speed`.
enum class link_speed : std::uint32_t {
  sdr = 1,    ///< 2.5 Gbit/s with line coding, 2 Gbit/s of data
  ddr = 2,    ///< 5 Gbit/s with line coding, 4 Gbit/s of data
  qdr = 4,    ///< 10 Gbit/s with line coding, 8 Gbit/s of data
  fdr10 = 8,  ///< 10 Gbit/s of data
  fdr = 16,   ///< 14 Gbit/s with line coding, 13.64 Gbit/s of data
  edr = 32,   ///< 25 Gbit/s of data
  hdr = 64,   ///< 50 Gbit/s of data
  ndr = 128,  ///< 100 Gbit/s of data
  xdr = 256,  ///< 200 Gbit/s of data
};

/// Lanes of a link; nothing for an unknown width.
[[nodiscard]] std::optional<unsigned> lanes(link_width width) noexcept;
/// Gigabits of data per second on one lane, after line coding; nothing for an unknown speed.
[[nodiscard]] std::optional<double> lane_gbps(link_speed speed) noexcept;

/// The names in words; values that are none of the enumerators read `unknown (7)`.
/// @{
[[nodiscard]] std::string to_string(port_state state);
[[nodiscard]] std::string to_string(link_layer layer);
[[nodiscard]] std::string to_string(physical_state state);
[[nodiscard]] std::string to_string(link_width width);
[[nodiscard]] std::string to_string(link_speed speed);
/// @}

/// What context::query_port() found. Enumerations keep values that this library does not know.
/// Threads: immutable value.
class port_attributes {
 public:
  /// From the C API.
  port_attributes(port_number port, const ibv_port_attr& native) noexcept
      : native_(native), port_(port) {}

  /// Its number, from 1.
  [[nodiscard]] port_number number() const noexcept { return port_; }
  /// Whether data flows.
  [[nodiscard]] port_state state() const noexcept {
    return enum_from_bits<port_state>(native_.state);
  }
  /// The largest packet that the port could carry.
  [[nodiscard]] mtu max_mtu() const noexcept { return enum_from_bits<mtu>(native_.max_mtu); }
  /// The largest packet that the port carries now.
  [[nodiscard]] mtu active_mtu() const noexcept { return enum_from_bits<mtu>(native_.active_mtu); }
  /// What carries its packets.
  [[nodiscard]] verbena::link_layer link_layer() const noexcept {
    return static_cast<verbena::link_layer>(native_.link_layer);
  }
  /// The physical state of its link.
  [[nodiscard]] physical_state phys_state() const noexcept {
    return static_cast<physical_state>(native_.phys_state);
  }
  /// How many lanes its link has.
  [[nodiscard]] link_width active_width() const noexcept {
    return static_cast<link_width>(native_.active_width);
  }
  /// From the wide field of newer rdma-core if it is filled, else from the old one of 8 bits.
  [[nodiscard]] link_speed active_speed() const noexcept;
  /// Gigabits of data per second of the whole link; nothing if width or speed is unknown.
  [[nodiscard]] std::optional<double> data_gbps() const noexcept;

  /// The port's address on InfiniBand; 0 on Ethernet.
  [[nodiscard]] verbena::lid lid() const noexcept { return verbena::lid(native_.lid); }
  /// The low bits of the LID that the port ignores: it answers to 2^n of them.
  [[nodiscard]] std::uint8_t lid_mask_bits() const noexcept { return native_.lmc; }
  /// Where the subnet manager is.
  [[nodiscard]] verbena::lid subnet_manager_lid() const noexcept {
    return verbena::lid(native_.sm_lid);
  }
  /// The service level that reaches the subnet manager.
  [[nodiscard]] std::uint8_t subnet_manager_service_level() const noexcept { return native_.sm_sl; }
  /// Virtual lanes that the port has; nothing for an unknown `max_vl_num`.
  [[nodiscard]] std::optional<unsigned> virtual_lanes() const noexcept;
  /// What its management can do.
  [[nodiscard]] flags<port_capability> capabilities() const noexcept {
    return flags<port_capability>::from_mask(native_.port_cap_flags);
  }
  /// What else its management can do; empty on Ethernet.
  [[nodiscard]] flags<port_capability2> more_capabilities() const noexcept {
    return flags<port_capability2>::from_mask(native_.port_cap_flags2);
  }
  /// How it is to be used.
  [[nodiscard]] flags<port_flag> port_flags() const noexcept {
    return flags<port_flag>::from_mask(native_.flags);
  }
  /// Packets that came with a wrong P_Key, as far as the device counts them.
  [[nodiscard]] std::uint32_t bad_pkey_count() const noexcept { return native_.bad_pkey_cntr; }
  /// Packets that came with a wrong Q_Key, as far as the device counts them.
  [[nodiscard]] std::uint32_t bad_qkey_count() const noexcept { return native_.qkey_viol_cntr; }
  /// Places in its GID table, empty ones included.
  [[nodiscard]] std::uint32_t gid_table_length() const noexcept {
    return native_.gid_tbl_len > 0 ? static_cast<std::uint32_t>(native_.gid_tbl_len) : 0;
  }
  /// Places in its table of P_Keys.
  [[nodiscard]] std::uint16_t pkey_table_length() const noexcept { return native_.pkey_tbl_len; }
  /// Bytes of the longest message.
  [[nodiscard]] std::uint32_t max_message_bytes() const noexcept { return native_.max_msg_sz; }

  /// Every field, as ibv_query_port(3) filled it.
  [[nodiscard]] const ibv_port_attr& native() const noexcept { return native_; }

 private:
  ibv_port_attr native_;
  port_number port_;
};

/// `port 1: active, Ethernet, link up, MTU 4096 (max 4096), 4x EDR, 64 GIDs`.
[[nodiscard]] std::string to_string(const port_attributes& port);

}  // namespace verbena::inline VERBENA_ABI
