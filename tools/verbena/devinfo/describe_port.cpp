// SPDX-License-Identifier: MIT
#include <cmath>
#include <string>

#include "tools/verbena/devinfo/describe.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/port_attributes.hpp"

namespace verbena::tool {
namespace {

template <class Enum>
enumerated name_of(Enum value) {
  return {.number = static_cast<std::int64_t>(value), .name = to_string(value)};
}

coded packet_size(mtu of) {
  const auto bytes = byte_count(of);
  return {.code = static_cast<std::int64_t>(of),
          .amount = bytes != 0 ? std::optional<double>(bytes) : std::nullopt};
}

// Decodes an InfiniBand time: 4.096 µs · 2^n, where n has five bits.
coded encoded_time(std::uint8_t exponent) {
  return {.code = exponent,
          .amount = exponent < 32 ? std::optional(std::ldexp(4.096e-6, exponent)) : std::nullopt};
}

section describe_gid(const gid_entry& entry) {
  const auto& raw = entry.gid.bytes();
  value ipv4 = unknown();
  if (entry.gid.is_ipv4_mapped())
    ipv4 = std::to_string(raw[12]) + '.' + std::to_string(raw[13]) + '.' + std::to_string(raw[14]) +
           '.' + std::to_string(raw[15]);
  const auto name = entry.interface_name();
  return {
      {"index", std::uint64_t{entry.index.value()}},
      {"gid", to_string(entry.gid)},
      {"ipv4", std::move(ipv4), unit::none, audience::programs},
      {"type", name_of(entry.type)},
      {"netdev", name ? value(*name) : value(unknown())},
      {"ndev_ifindex", std::uint64_t{entry.interface_index}, unit::none, audience::programs},
  };
}

result<std::vector<section>> describe_pkeys(const context& opened, const port_attributes& port) {
  std::vector<section> pkeys;
  for (std::uint16_t index = 0; index < port.pkey_table_length(); ++index) {
    VERBENA_TRY(const auto pkey, opened.query_pkey(port.number(), index));
    if (pkey.value() == 0) continue;  // an empty entry
    pkeys.push_back({{"index", std::uint64_t{index}}, {"pkey", hexadecimal{pkey.value()}}});
  }
  return pkeys;
}

value data_rate(const port_attributes& port) {
  const auto gbps = port.data_gbps();
  if (!gbps) return unknown();
  return static_cast<std::uint64_t>(std::llround(*gbps * 1e9));
}

section describe_link(const port_attributes& port) {
  const auto lanes = port.virtual_lanes();
  const ibv_port_attr& of = port.native();
  return {
      {"port", std::uint64_t{port.number().value()}},
      {"state", name_of(port.state())},
      {"phys_state", name_of(port.phys_state())},
      {"link_layer", name_of(port.link_layer())},
      {"max_mtu", packet_size(port.max_mtu()), unit::bytes},
      {"active_mtu", packet_size(port.active_mtu()), unit::bytes},
      {"active_width", name_of(port.active_width())},
      {"active_speed", name_of(port.active_speed())},
      {"data_rate", data_rate(port), unit::bits_per_second},
      {"lid", std::uint64_t{port.lid().value()}},
      {"lmc", std::uint64_t{port.lid_mask_bits()}},
      {"sm_lid", std::uint64_t{port.subnet_manager_lid().value()}},
      {"sm_sl", std::uint64_t{port.subnet_manager_service_level()}},
      {"max_msg_sz", std::uint64_t{port.max_message_bytes()}, unit::bytes},
      {"port_cap_flags", bits(port.capabilities())},
      {"port_cap_flags2", bits(port.more_capabilities())},
      {"flags", bits(port.port_flags())},
      {"max_vl_num", coded{of.max_vl_num, lanes ? std::optional<double>(*lanes) : std::nullopt},
       unit::lanes},
      {"bad_pkey_cntr", std::uint64_t{port.bad_pkey_count()}},
      {"qkey_viol_cntr", std::uint64_t{port.bad_qkey_count()}},
      {"subnet_timeout", encoded_time(of.subnet_timeout), unit::seconds},
      {"init_type_reply", std::uint64_t{of.init_type_reply}},
      {"pkey_tbl_len", std::uint64_t{port.pkey_table_length()}},
      {"gid_tbl_len", std::uint64_t{port.gid_table_length()}},
  };
}

}  // namespace

result<section> describe_port(const context& opened, port_number port) {
  VERBENA_TRY(const auto attributes, opened.query_port(port));
  VERBENA_TRY(const auto entries, opened.gid_table());
  VERBENA_TRY(auto pkeys, describe_pkeys(opened, attributes));
  std::vector<section> gids;
  for (const auto& entry : entries)
    if (entry.port == port) gids.push_back(describe_gid(entry));
  section all = describe_link(attributes);
  all.push_back({"pkeys", std::move(pkeys)});
  all.push_back({"gids", std::move(gids)});
  return all;
}

}  // namespace verbena::tool
