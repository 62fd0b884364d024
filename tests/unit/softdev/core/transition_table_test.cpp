// SPDX-License-Identifier: MIT
// Every transition of a queue pair with every attribute, compared with the tables of
// ibv_modify_qp(3).
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

using state = queue_pair_state;
using attr = attribute;

constexpr std::array each_state = {state::reset, state::init, state::rtr,  state::rts,
                                   state::sqd,   state::sqe,  state::error};

struct transition_row {
  state from;
  state to;
  attribute_mask required;
  attribute_mask optional;
};
struct transport_case {
  const char* name;
  transport kind;
  std::vector<transition_row> rows;  ///< besides those to RESET and ERR
};

// Alternate paths are missing: a port on Ethernet has none.
transport_case reliable_connected() {
  const auto init = attr::pkey_index | attr::port | attr::access_flags;
  const auto rts =
      attr::current_state | attr::access_flags | attr::min_rnr_timer | attr::path_migration_state;
  return {
      "rc",
      transport::rc,
      {{state::reset, state::init, init, {}},
       {state::init, state::init, {}, init},
       {state::init, state::rtr,
        attr::address_vector | attr::path_mtu | attr::destination_qpn | attr::receive_psn |
            attr::max_dest_rd_atomic | attr::min_rnr_timer,
        attr::access_flags | attr::pkey_index},
       {state::rtr, state::rts,
        attr::send_psn | attr::timeout | attr::retry_count | attr::rnr_retry | attr::max_rd_atomic,
        rts},
       {state::rts, state::rts, {}, rts},
       {state::rts, state::sqd, {}, attr::sqd_notify},
       {state::sqd, state::rts, {}, rts},
       {state::sqd,
        state::sqd,
        {},
        attr::port | attr::address_vector | attr::timeout | attr::retry_count | attr::rnr_retry |
            attr::max_rd_atomic | attr::max_dest_rd_atomic | attr::access_flags | attr::pkey_index |
            attr::min_rnr_timer | attr::path_migration_state}}};
}

transport_case unreliable_connected() {
  const auto init = attr::pkey_index | attr::port | attr::access_flags;
  const auto rts = attr::current_state | attr::access_flags | attr::path_migration_state;
  return {
      "uc",
      transport::uc,
      {{state::reset, state::init, init, {}},
       {state::init, state::init, {}, init},
       {state::init, state::rtr,
        attr::address_vector | attr::path_mtu | attr::destination_qpn | attr::receive_psn,
        attr::access_flags | attr::pkey_index},
       {state::rtr, state::rts, attr::send_psn, rts},
       {state::rts, state::rts, {}, rts},
       {state::rts, state::sqd, {}, attr::sqd_notify},
       {state::sqd, state::rts, {}, rts},
       {state::sqd,
        state::sqd,
        {},
        attr::address_vector | attr::access_flags | attr::pkey_index | attr::path_migration_state},
       {state::sqe, state::rts, {}, attr::current_state | attr::access_flags}}};
}

transport_case unreliable_datagram() {
  const auto init = attr::pkey_index | attr::port | attr::qkey;
  const auto rts = attr::current_state | attr::qkey;
  return {"ud",
          transport::ud,
          {{state::reset, state::init, init, {}},
           {state::init, state::init, {}, init},
           {state::init, state::rtr, {}, attr::pkey_index | attr::qkey},
           {state::rtr, state::rts, attr::send_psn, rts},
           {state::rts, state::rts, {}, rts},
           {state::rts, state::sqd, {}, attr::sqd_notify},
           {state::sqd, state::rts, {}, rts},
           {state::sqd, state::sqd, {}, attr::pkey_index | attr::qkey},
           {state::sqe, state::rts, {}, rts}}};
}

class transitions : public ::testing::TestWithParam<transport_case> {
 protected:
  static bool accepts(state from, state to, attribute_mask mask) {
    queue_pair_attributes wanted = connection_to(5);
    wanted.state = to;
    wanted.current_state = from;
    return check_modification(from, wanted, mask | attr::state, GetParam().kind).has_value();
  }
  static const transition_row* find(state from, state to) {
    for (const transition_row& row : GetParam().rows)
      if (row.from == from && row.to == to) return &row;
    return nullptr;
  }
};

// parity: semantics-58
TEST_P(transitions, each_attribute_is_required_optional_or_refused) {
  constexpr std::uint32_t count = 21;
  for (const state from : each_state)
    for (const state to : each_state) {
      const std::string where =
          std::to_string(static_cast<int>(from)) + " to " + std::to_string(static_cast<int>(to));
      const bool ends = to == state::reset || (to == state::error && from != state::reset);
      const transition_row* row = find(from, to);
      const transition_row known = row != nullptr ? *row : transition_row{from, to, {}, {}};
      EXPECT_EQ(accepts(from, to, known.required), ends || row != nullptr) << where;
      for (std::uint32_t bit = 1; bit < count; ++bit) {
        const auto one = attribute_mask::from_mask(1U << bit);
        if (known.required.contains(one)) {
          EXPECT_FALSE(accepts(from, to, known.required.without(one))) << where << ", bit " << bit;
          continue;
        }
        EXPECT_EQ(accepts(from, to, known.required | one), known.optional.contains(one))
            << where << ", bit " << bit;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(of, transitions,
                         ::testing::Values(reliable_connected(), unreliable_connected(),
                                           unreliable_datagram()),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace verbena::softdev::testing
