// SPDX-License-Identifier: MIT
// Keys are the field names in verbs.h, so that users can look them up.
#include <chrono>
#include <cstdint>

#include "tools/verbena/devinfo/describe.hpp"
#include "verbena/verbs/device_capabilities.hpp"

namespace verbena::tool {
namespace {

value number(std::int64_t of) { return of; }
value count(std::uint64_t of) { return of; }
value queue_pairs(std::uint32_t mask) { return bits(flags<queue_pair_kind>::from_mask(mask)); }
// Rate limits are in kilobits per second.
value rate(std::uint32_t kilobits) { return std::uint64_t{kilobits} * 1000; }

section on_demand(const extended_device_attributes& device) {
  return {{"general_odp_caps", bits(device.on_demand())},
          {"rc_odp_caps", bits(device.on_demand_rc())},
          {"uc_odp_caps", bits(device.on_demand_uc())},
          {"ud_odp_caps", bits(device.on_demand_ud())},
          {"xrc_odp_caps", bits(device.on_demand_xrc())}};
}

section receive_hash(const ibv_rss_caps& caps) {
  return {
      {"supported_qpts", queue_pairs(caps.supported_qpts)},
      {"max_rwq_indirection_tables", count(caps.max_rwq_indirection_tables)},
      {"max_rwq_indirection_table_size", count(caps.max_rwq_indirection_table_size)},
      {"rx_hash_fields_mask", bits(flags<receive_hash_field>::from_mask(caps.rx_hash_fields_mask))},
      {"rx_hash_function", bits(flags<receive_hash_function>::from_mask(caps.rx_hash_function))}};
}

section tag_matching(const ibv_tm_caps& caps) {
  return {{"max_rndv_hdr_size", count(caps.max_rndv_hdr_size), unit::bytes},
          {"max_num_tags", count(caps.max_num_tags)},
          {"flags", bits(flags<tag_matching_capability>::from_mask(caps.flags))},
          {"max_ops", count(caps.max_ops)},
          {"max_sge", count(caps.max_sge)}};
}

section packet_pacing(const ibv_packet_pacing_caps& caps) {
  return {{"qp_rate_limit_min", rate(caps.qp_rate_limit_min), unit::bits_per_second},
          {"qp_rate_limit_max", rate(caps.qp_rate_limit_max), unit::bits_per_second},
          {"supported_qpts", queue_pairs(caps.supported_qpts)}};
}

section cq_moderation(const ibv_cq_moderation_caps& caps) {
  return {{"max_cq_count", count(caps.max_cq_count)},
          {"max_cq_period", caps.max_cq_period * 1e-6, unit::seconds}};
}

}  // namespace

section describe_limits(const device_attributes& attributes) {
  const ibv_device_attr& of = attributes.native();
  return {
      {"max_mr_size", count(of.max_mr_size), unit::bytes},
      {"page_size_cap", hexadecimal{of.page_size_cap}},
      {"max_qp", number(of.max_qp)},
      {"max_qp_wr", number(of.max_qp_wr)},
      {"max_sge", number(of.max_sge)},
      {"max_sge_rd", number(of.max_sge_rd)},
      {"max_cq", number(of.max_cq)},
      {"max_cqe", number(of.max_cqe)},
      {"max_mr", number(of.max_mr)},
      {"max_pd", number(of.max_pd)},
      {"max_qp_rd_atom", number(of.max_qp_rd_atom)},
      {"max_ee_rd_atom", number(of.max_ee_rd_atom)},
      {"max_res_rd_atom", number(of.max_res_rd_atom)},
      {"max_qp_init_rd_atom", number(of.max_qp_init_rd_atom)},
      {"max_ee_init_rd_atom", number(of.max_ee_init_rd_atom)},
      {"max_ee", number(of.max_ee)},
      {"max_rdd", number(of.max_rdd)},
      {"max_mw", number(of.max_mw)},
      {"max_raw_ipv6_qp", number(of.max_raw_ipv6_qp)},
      {"max_raw_ethy_qp", number(of.max_raw_ethy_qp)},
      {"max_mcast_grp", number(of.max_mcast_grp)},
      {"max_mcast_qp_attach", number(of.max_mcast_qp_attach)},
      {"max_total_mcast_qp_attach", number(of.max_total_mcast_qp_attach)},
      {"max_ah", number(of.max_ah)},
      {"max_fmr", number(of.max_fmr)},
      {"max_map_per_fmr", number(of.max_map_per_fmr)},
      {"max_srq", number(of.max_srq)},
      {"max_srq_wr", number(of.max_srq_wr)},
      {"max_srq_sge", number(of.max_srq_sge)},
      {"max_pkeys", number(of.max_pkeys)},
      {"local_ca_ack_delay",
       coded{of.local_ca_ack_delay, std::chrono::duration<double>(attributes.ack_delay()).count()},
       unit::seconds},
  };
}

void append_capabilities(section& to, const extended_device_attributes& attributes) {
  const ibv_device_attr_ex& of = attributes.native();
  const auto basic = attributes.basic();
  to.push_back({"device_cap_flags", bits(basic.capabilities())});
  to.push_back(
      {"device_cap_flags_ex", bits(flags<device_capability>::from_mask(of.device_cap_flags_ex))});
  to.push_back({"atomic_cap", enumerated{static_cast<std::int64_t>(basic.atomics()),
                                         to_string(basic.atomics())}});
  to.push_back({"pci_atomic_caps", section{{"fetch_add", bits(attributes.pci_fetch_add())},
                                           {"swap", bits(attributes.pci_swap())},
                                           {"compare_swap", bits(attributes.pci_compare_swap())}}});
  to.push_back({"odp_caps", on_demand(attributes)});
  to.push_back({"completion_timestamp_mask", hexadecimal{attributes.completion_timestamp_mask()}});
  const auto clock = attributes.clock_khz();
  to.push_back(
      {"hca_core_clock", clock != 0 ? count(clock * 1000) : value(unknown()), unit::hertz});
  to.push_back({"raw_packet_caps", bits(attributes.raw_packet_capabilities())});
  to.push_back({"tso_caps", section{{"max_tso", count(of.tso_caps.max_tso), unit::bytes},
                                    {"supported_qpts", queue_pairs(of.tso_caps.supported_qpts)}}});
  to.push_back({"rss_caps", receive_hash(of.rss_caps)});
  to.push_back({"max_wq_type_rq", count(of.max_wq_type_rq)});
  to.push_back({"packet_pacing_caps", packet_pacing(of.packet_pacing_caps)});
  to.push_back({"tm_caps", tag_matching(of.tm_caps)});
  to.push_back({"cq_mod_caps", cq_moderation(of.cq_mod_caps)});
  to.push_back({"max_dm_size", count(attributes.device_memory_bytes()), unit::bytes});
}

}  // namespace verbena::tool
