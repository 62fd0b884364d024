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
enum class port_state : std::uint8_t { no_change, down, initialize, armed, active, active_defer };

/// What carries the port's packets.
enum class link_layer : std::uint8_t { unspecified, infiniband, ethernet };

/// The physical state of a port's link.
enum class physical_state : std::uint8_t {
  sleep = 1,
  polling,
  disabled,
  configuration_training,
  link_up,
  link_error_recovery,
  phy_test,
};

/// How many lanes the link has. Values as in `ibv_port_attr::active_width`.
enum class link_width : std::uint8_t { x1 = 1, x4 = 2, x8 = 4, x12 = 8, x2 = 16 };

/// How fast one lane is. Values as in `ibv_port_attr::active_speed`.
enum class link_speed : std::uint32_t {
  sdr = 1,
  ddr = 2,
  qdr = 4,
  fdr10 = 8,
  fdr = 16,
  edr = 32,
  hdr = 64,
  ndr = 128,
  xdr = 256,
};

/// Lanes of a link; nothing for an unknown width.
[[nodiscard]] std::optional<unsigned> lanes(link_width width) noexcept;
/// Gigabits of data per second on one lane, after line coding; nothing for an unknown speed.
[[nodiscard]] std::optional<double> lane_gbps(link_speed speed) noexcept;

/// The names in words; values that are none of the enumerators read `unknown (7)`.
[[nodiscard]] std::string to_string(port_state state);
[[nodiscard]] std::string to_string(link_layer layer);
[[nodiscard]] std::string to_string(physical_state state);
[[nodiscard]] std::string to_string(link_width width);
[[nodiscard]] std::string to_string(link_speed speed);

/// What context::query_port() found. Enumerations keep values that this library does not know.
/// Threads: immutable value.
class port_attributes {
 public:
  port_attributes(port_number port, const ibv_port_attr& native) noexcept
      : native_(native), port_(port) {}

  [[nodiscard]] port_number number() const noexcept { return port_; }
  [[nodiscard]] port_state state() const noexcept {
    return enum_from_bits<port_state>(native_.state);
  }
  /// The largest packet that the port could carry, and that it carries now.
  [[nodiscard]] mtu max_mtu() const noexcept { return enum_from_bits<mtu>(native_.max_mtu); }
  [[nodiscard]] mtu active_mtu() const noexcept { return enum_from_bits<mtu>(native_.active_mtu); }
  [[nodiscard]] verbena::link_layer link_layer() const noexcept {
    return static_cast<verbena::link_layer>(native_.link_layer);
  }
  [[nodiscard]] physical_state phys_state() const noexcept {
    return static_cast<physical_state>(native_.phys_state);
  }
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
  /// Where the subnet manager is, and the service level that reaches it.
  [[nodiscard]] verbena::lid subnet_manager_lid() const noexcept {
    return verbena::lid(native_.sm_lid);
  }
  [[nodiscard]] std::uint8_t subnet_manager_service_level() const noexcept { return native_.sm_sl; }
  /// Virtual lanes that the port has; nothing for an unknown `max_vl_num`.
  [[nodiscard]] std::optional<unsigned> virtual_lanes() const noexcept;
  [[nodiscard]] flags<port_capability> capabilities() const noexcept {
    return flags<port_capability>::from_mask(native_.port_cap_flags);
  }
  [[nodiscard]] flags<port_capability2> more_capabilities() const noexcept {
    return flags<port_capability2>::from_mask(native_.port_cap_flags2);
  }
  [[nodiscard]] flags<port_flag> port_flags() const noexcept {
    return flags<port_flag>::from_mask(native_.flags);
  }
  /// Packets that came with a wrong P_Key or Q_Key, as far as the device counts them.
  [[nodiscard]] std::uint32_t bad_pkey_count() const noexcept { return native_.bad_pkey_cntr; }
  [[nodiscard]] std::uint32_t bad_qkey_count() const noexcept { return native_.qkey_viol_cntr; }
  [[nodiscard]] std::uint32_t gid_table_length() const noexcept {
    return native_.gid_tbl_len > 0 ? static_cast<std::uint32_t>(native_.gid_tbl_len) : 0;
  }
  [[nodiscard]] std::uint16_t pkey_table_length() const noexcept { return native_.pkey_tbl_len; }
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
