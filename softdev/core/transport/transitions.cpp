// SPDX-License-Identifier: MIT
#include "softdev/core/transport/transitions.hpp"

namespace verbena::softdev {
namespace {

using state = queue_pair_state;

/// The rows of one transport. find_transition() has the parts that all transports share.
struct table {
  attribute_mask init;          ///< required from RESET to INIT, optional from INIT to INIT
  attribute_mask rtr_required;  ///< INIT to RTR
  attribute_mask rtr_optional;  ///< INIT to RTR
  attribute_mask rts_required;  ///< RTR to RTS
  attribute_mask rts_optional;  ///< RTR, RTS or SQD to RTS
  attribute_mask sqd_optional;  ///< SQD to SQD
  attribute_mask recovery;      ///< optional from SQE to RTS
  attribute_mask start;         ///< also optional from RTR to RTS
  bool has_send_error = true;   ///< the state SQE exists
};

constexpr attribute_mask connected_init =
    attribute::pkey_index | attribute::port | attribute::access_flags;
constexpr attribute_mask connected_rtr =
    attribute::alternate_path | attribute::access_flags | attribute::pkey_index;
constexpr attribute_mask connected_rts = attribute::current_state | attribute::alternate_path |
                                         attribute::access_flags | attribute::path_migration_state;
constexpr attribute_mask connected_sqd = attribute::address_vector | attribute::alternate_path |
                                         attribute::access_flags | attribute::pkey_index |
                                         attribute::path_migration_state;
constexpr attribute_mask unconnected = attribute::pkey_index | attribute::qkey;

constexpr table reliable_connected{
    .init = connected_init,
    .rtr_required = attribute::address_vector | attribute::path_mtu | attribute::destination_qpn |
                    attribute::receive_psn | attribute::max_dest_rd_atomic |
                    attribute::min_rnr_timer,
    .rtr_optional = connected_rtr,
    .rts_required = attribute::timeout | attribute::retry_count | attribute::rnr_retry |
                    attribute::send_psn | attribute::max_rd_atomic,
    .rts_optional = connected_rts | attribute::min_rnr_timer,
    .sqd_optional = connected_sqd | attribute::port | attribute::timeout | attribute::retry_count |
                    attribute::rnr_retry | attribute::max_rd_atomic |
                    attribute::max_dest_rd_atomic | attribute::min_rnr_timer,
    .recovery = {},
    .has_send_error = false};

constexpr table unreliable_connected{
    .init = connected_init,
    .rtr_required = attribute::address_vector | attribute::path_mtu | attribute::destination_qpn |
                    attribute::receive_psn,
    .rtr_optional = connected_rtr,
    .rts_required = attribute::send_psn,
    .rts_optional = connected_rts,
    .sqd_optional = connected_sqd,
    .recovery = attribute::current_state | attribute::access_flags};

constexpr table unreliable_datagram{
    .init = attribute::pkey_index | attribute::port | attribute::qkey,
    .rtr_required = {},
    .rtr_optional = unconnected,
    .rts_required = attribute::send_psn,
    .rts_optional = attribute::current_state | attribute::qkey,
    .sqd_optional = unconnected,
    .recovery = attribute::current_state | attribute::qkey};

/// From the kernel's driver of EFA (drivers/infiniband/hw/efa/efa_verbs.c, srd_qp_state_table).
constexpr table reliable_datagram{.init = attribute::pkey_index | attribute::port | attribute::qkey,
                                  .rtr_required = {},
                                  .rtr_optional = unconnected,
                                  .rts_required = attribute::send_psn,
                                  .rts_optional = attribute::current_state | attribute::qkey,
                                  .sqd_optional = unconnected,
                                  .recovery = attribute::current_state | attribute::qkey,
                                  .start = attribute::rnr_retry};

constexpr const table& table_of(transport kind) {
  switch (kind) {
    case transport::uc:
      return unreliable_connected;
    case transport::ud:
      return unreliable_datagram;
    case transport::srd:
      return reliable_datagram;
    default:
      return reliable_connected;
  }
}

}  // namespace

queue_pair_attributes initial_attributes(transport kind) noexcept {
  queue_pair_attributes attributes;
  if (kind != transport::srd) return attributes;
  constexpr std::uint8_t for_ever = 7;
  constexpr std::uint8_t sixth_of_a_millisecond = 8;
  attributes.rights = access::remote_write | access::remote_read;
  attributes.rnr_retry = for_ever;
  attributes.min_rnr_timer = sixth_of_a_millisecond;
  attributes.max_dest_rd_atomic = limits::max_rd_atomic;
  return attributes;
}

std::optional<transition> find_transition(transport kind, state from, state to) noexcept {
  if (to == state::reset || (to == state::error && from != state::reset)) return transition{};
  const table& rows = table_of(kind);
  switch (from) {
    case state::reset:
      if (to == state::init) return transition{rows.init, {}};
      break;
    case state::init:
      if (to == state::init) return transition{{}, rows.init};
      if (to == state::rtr) return transition{rows.rtr_required, rows.rtr_optional};
      break;
    case state::rtr:
      if (to == state::rts) return transition{rows.rts_required, rows.rts_optional | rows.start};
      break;
    case state::rts:
      if (to == state::rts) return transition{{}, rows.rts_optional};
      if (to == state::sqd) return transition{{}, attribute::sqd_notify};
      break;
    case state::sqd:
      if (to == state::rts) return transition{{}, rows.rts_optional};
      if (to == state::sqd) return transition{{}, rows.sqd_optional};
      break;
    case state::sqe:
      if (to == state::rts && rows.has_send_error) return transition{{}, rows.recovery};
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace verbena::softdev
