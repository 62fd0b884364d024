// SPDX-License-Identifier: MIT
#include "verbena/verbs/port_attributes.hpp"

#include <fmt/format.h>

#include <array>

#include "src/verbs/text.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// Newer rdma-core has a wide field for speeds that do not fit into 8 bits, `active_speed_ex`.
constexpr std::size_t wide_speed = 52;

template <class Enum>
std::string unknown(Enum value) {
  return detail::unknown_value(static_cast<std::int64_t>(value));
}

}  // namespace

std::string to_string(mtu of) {
  return byte_count(of) != 0 ? std::to_string(byte_count(of)) : unknown(of);
}

std::optional<unsigned> lanes(link_width width) noexcept {
  switch (width) {
    case link_width::x1:
      return 1;
    case link_width::x2:
      return 2;
    case link_width::x4:
      return 4;
    case link_width::x8:
      return 8;
    case link_width::x12:
      return 12;
  }
  return std::nullopt;
}

std::optional<double> lane_gbps(link_speed speed) noexcept {
  switch (speed) {
    case link_speed::sdr:
      return 2;
    case link_speed::ddr:
      return 4;
    case link_speed::qdr:
      return 8;
    case link_speed::fdr10:
      return 10;
    case link_speed::fdr:
      return 13.64;
    case link_speed::edr:
      return 25;
    case link_speed::hdr:
      return 50;
    case link_speed::ndr:
      return 100;
    case link_speed::xdr:
      return 200;
  }
  return std::nullopt;
}

std::string to_string(port_state state) {
  switch (state) {
    case port_state::no_change:
      return "no change";
    case port_state::down:
      return "down";
    case port_state::initialize:
      return "initialize";
    case port_state::armed:
      return "armed";
    case port_state::active:
      return "active";
    case port_state::active_defer:
      return "active (defer)";
  }
  return unknown(state);
}

std::string to_string(link_layer layer) {
  switch (layer) {
    case link_layer::unspecified:
      return "unspecified";
    case link_layer::infiniband:
      return "InfiniBand";
    case link_layer::ethernet:
      return "Ethernet";
  }
  return unknown(layer);
}

std::string to_string(physical_state state) {
  switch (state) {
    case physical_state::sleep:
      return "sleep";
    case physical_state::polling:
      return "polling";
    case physical_state::disabled:
      return "disabled";
    case physical_state::configuration_training:
      return "configuration training";
    case physical_state::link_up:
      return "link up";
    case physical_state::link_error_recovery:
      return "link error recovery";
    case physical_state::phy_test:
      return "phy test";
  }
  return unknown(state);
}

std::string to_string(link_width width) {
  const auto count = lanes(width);
  return count ? fmt::format("{}x", *count) : unknown(width);
}

std::string to_string(link_speed speed) {
  switch (speed) {
    case link_speed::sdr:
      return "SDR";
    case link_speed::ddr:
      return "DDR";
    case link_speed::qdr:
      return "QDR";
    case link_speed::fdr10:
      return "FDR10";
    case link_speed::fdr:
      return "FDR";
    case link_speed::edr:
      return "EDR";
    case link_speed::hdr:
      return "HDR";
    case link_speed::ndr:
      return "NDR";
    case link_speed::xdr:
      return "XDR";
  }
  return unknown(speed);
}

link_speed port_attributes::active_speed() const noexcept {
  const auto wide = room_.member_at<std::uint32_t>(wide_speed);
  return static_cast<link_speed>(wide != 0 ? wide : native().active_speed);
}

std::optional<unsigned> port_attributes::virtual_lanes() const noexcept {
  constexpr std::array<unsigned, 6> lanes_of = {0, 1, 2, 4, 8, 15};  // VLCap of PortInfo
  if (native().max_vl_num == 0 || native().max_vl_num >= lanes_of.size()) return std::nullopt;
  return lanes_of[native().max_vl_num];
}

std::optional<double> port_attributes::data_gbps() const noexcept {
  const auto count = lanes(active_width());
  const auto each = lane_gbps(active_speed());
  if (!count || !each) return std::nullopt;
  return *count * *each;
}

std::string to_string(const port_attributes& port) {
  std::string text = fmt::format(
      "port {}: {}, {}, {}, MTU {} (max {}), {} {}", port.number().value(), to_string(port.state()),
      to_string(port.link_layer()), to_string(port.phys_state()), to_string(port.active_mtu()),
      to_string(port.max_mtu()), to_string(port.active_width()), to_string(port.active_speed()));
  if (port.lid().value() != 0) text += fmt::format(", LID {}", port.lid().value());
  return text + fmt::format(", {} GIDs", port.gid_table_length());
}

}  // namespace verbena::inline VERBENA_ABI
