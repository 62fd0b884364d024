// SPDX-License-Identifier: MIT
// Attributes of ports. Source: ibv_query_port(3).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/enum_bits.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/sys/native_value.hpp"
#include "verbena/verbs/mtu.hpp"
#include "verbena/verbs/port_capabilities.hpp"

namespace verbena::inline VERBENA_ABI {

/// The logical state of a port. Values as in `ibv_port_state`.
enum class port_state : std::uint8_t {
  no_change,     ///< in modify requests only
  down,          ///< no link
  initialize,    ///< link up, not configured by a subnet manager
  armed,         ///< configured by the subnet manager, not active yet
  active,        ///< can send and receive
  active_defer,  ///< active, with a link that is recovering
};

/// The link layer of a port. Values as in `IBV_LINK_LAYER_…`.
enum class link_layer : std::uint8_t {
  unspecified,  ///< not reported: InfiniBand, or another link layer
  infiniband,   ///< InfiniBand
  ethernet,     ///< Ethernet: RoCE, iWARP
};

/// The physical state of the link of a port. Values as in `ibv_port_attr::phys_state`.
enum class physical_state : std::uint8_t {
  sleep = 1,               ///< low-power state, no link
  polling,                 ///< searches for the link partner
  disabled,                ///< disabled
  configuration_training,  ///< negotiates width and speed
  link_up,                 ///< the link is up
  link_error_recovery,     ///< recovers from link errors
  phy_test,                ///< test mode
};

/// The number of lanes of a link. Values as in `ibv_port_attr::active_width`.
enum class link_width : std::uint8_t {
  x1 = 1,   ///< one lane
  x4 = 2,   ///< four lanes
  x8 = 4,   ///< eight lanes
  x12 = 8,  ///< twelve lanes
  x2 = 16,  ///< two lanes
};

/// The speed of one lane. Values as in `ibv_port_attr::active_speed`.
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

/// Returns the number of lanes, or `nullopt` for an unknown width.
[[nodiscard]] std::optional<unsigned> lanes(link_width width) noexcept;
/// Returns the data rate of one lane in Gbit/s, or `nullopt` for an unknown speed.
[[nodiscard]] std::optional<double> lane_gbps(link_speed speed) noexcept;

/// Returns the name; for unknown values `unknown (7)`.
/// @{
[[nodiscard]] std::string to_string(port_state state);
[[nodiscard]] std::string to_string(link_layer layer);
[[nodiscard]] std::string to_string(physical_state state);
[[nodiscard]] std::string to_string(link_width width);
[[nodiscard]] std::string to_string(link_speed speed);
/// @}

/// The result of context::query_port(). Unknown values of enumerations are preserved.
/// Threads: immutable value.
class port_attributes {
 public:
  /// Converts from the C API.
  port_attributes(port_number port, const ibv_port_attr& native) noexcept
      : room_(native), port_(port) {}

  /// Returns the port number, from 1.
  [[nodiscard]] port_number number() const noexcept { return port_; }
  /// Returns the logical state.
  [[nodiscard]] port_state state() const noexcept {
    return enum_from_bits<port_state>(native().state);
  }
  /// Returns the largest MTU that the port supports.
  [[nodiscard]] mtu max_mtu() const noexcept { return enum_from_bits<mtu>(native().max_mtu); }
  /// Returns the active MTU.
  [[nodiscard]] mtu active_mtu() const noexcept { return enum_from_bits<mtu>(native().active_mtu); }
  /// Returns the link layer.
  [[nodiscard]] verbena::link_layer link_layer() const noexcept {
    return static_cast<verbena::link_layer>(native().link_layer);
  }
  /// Returns the physical state of the link.
  [[nodiscard]] physical_state phys_state() const noexcept {
    return static_cast<physical_state>(native().phys_state);
  }
  /// Returns the active link width.
  [[nodiscard]] link_width active_width() const noexcept {
    return static_cast<link_width>(native().active_width);
  }
  /// Returns the active speed of one lane, from `active_speed_ex` if the provider fills it, else
  /// from `active_speed`.
  [[nodiscard]] link_speed active_speed() const noexcept;
  /// Returns the data rate of the link in Gbit/s, or `nullopt` if width or speed is unknown.
  [[nodiscard]] std::optional<double> data_gbps() const noexcept;

  /// Returns the LID on InfiniBand; 0 on Ethernet.
  [[nodiscard]] verbena::lid lid() const noexcept { return verbena::lid(native().lid); }
  /// Returns the LID mask control: the port has 2^n LIDs.
  [[nodiscard]] std::uint8_t lid_mask_bits() const noexcept { return native().lmc; }
  /// Returns the LID of the subnet manager.
  [[nodiscard]] verbena::lid subnet_manager_lid() const noexcept {
    return verbena::lid(native().sm_lid);
  }
  /// Returns the service level to the subnet manager.
  [[nodiscard]] std::uint8_t subnet_manager_service_level() const noexcept {
    return native().sm_sl;
  }
  /// Returns the number of virtual lanes, or `nullopt` if `max_vl_num` is 0 or unknown.
  [[nodiscard]] std::optional<unsigned> virtual_lanes() const noexcept;
  /// Returns the capabilities of the port.
  [[nodiscard]] flags<port_capability> capabilities() const noexcept {
    return flags<port_capability>::from_mask(native().port_cap_flags);
  }
  /// Returns the capabilities of `port_cap_flags2`; empty on Ethernet.
  [[nodiscard]] flags<port_capability2> more_capabilities() const noexcept {
    return flags<port_capability2>::from_mask(native().port_cap_flags2);
  }
  /// Returns the requirements of the port.
  [[nodiscard]] flags<port_flag> port_flags() const noexcept {
    return flags<port_flag>::from_mask(native().flags);
  }
  /// Returns the number of packets with a wrong P_Key; 0 if the device does not count them.
  [[nodiscard]] std::uint32_t bad_pkey_count() const noexcept { return native().bad_pkey_cntr; }
  /// Returns the number of packets with a wrong Q_Key; 0 if the device does not count them.
  [[nodiscard]] std::uint32_t bad_qkey_count() const noexcept { return native().qkey_viol_cntr; }
  /// Returns the length of the GID table, including empty entries.
  [[nodiscard]] std::uint32_t gid_table_length() const noexcept {
    return native().gid_tbl_len > 0 ? static_cast<std::uint32_t>(native().gid_tbl_len) : 0;
  }
  /// Returns the length of the P_Key table.
  [[nodiscard]] std::uint16_t pkey_table_length() const noexcept { return native().pkey_tbl_len; }
  /// Returns the maximum message size in bytes.
  [[nodiscard]] std::uint32_t max_message_bytes() const noexcept { return native().max_msg_sz; }

  /// Returns the structure of ibv_query_port(3).
  [[nodiscard]] const ibv_port_attr& native() const noexcept { return room_.get(); }

 private:
  sys::native_value<ibv_port_attr, 128> room_;
  port_number port_;
};

/// Returns `port 1: active, Ethernet, link up, MTU 4096 (max 4096), 4x EDR, 64 GIDs`.
[[nodiscard]] std::string to_string(const port_attributes& port);

}  // namespace verbena::inline VERBENA_ABI
