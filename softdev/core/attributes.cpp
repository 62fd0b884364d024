// SPDX-License-Identifier: MIT
#include "softdev/core/attributes.hpp"

#include <array>
#include <string>
#include <string_view>

#include "softdev/core/port_state.hpp"
#include "softdev/core/transport/transitions.hpp"

namespace verbena::softdev {
namespace {

constexpr std::array<std::string_view, 7> state_names = {"RESET", "INIT", "RTR", "RTS",
                                                         "SQD",   "SQE",  "ERR"};
std::string_view name_of(queue_pair_state which) {
  const auto index = static_cast<std::size_t>(which);
  return index < state_names.size() ? state_names[index] : "an unknown state";
}

constexpr std::array<std::string_view, 21> attribute_names = {"STATE",
                                                              "CUR_STATE",
                                                              "EN_SQD_ASYNC_NOTIFY",
                                                              "ACCESS_FLAGS",
                                                              "PKEY_INDEX",
                                                              "PORT",
                                                              "QKEY",
                                                              "AV",
                                                              "PATH_MTU",
                                                              "TIMEOUT",
                                                              "RETRY_CNT",
                                                              "RNR_RETRY",
                                                              "RQ_PSN",
                                                              "MAX_QP_RD_ATOMIC",
                                                              "ALT_PATH",
                                                              "MIN_RNR_TIMER",
                                                              "SQ_PSN",
                                                              "MAX_DEST_RD_ATOMIC",
                                                              "PATH_MIG_STATE",
                                                              "CAP",
                                                              "DEST_QPN"};
std::string names_of(attribute_mask mask) {
  std::string names;
  for (std::size_t bit = 0; bit < 32; ++bit) {
    if ((mask.mask() >> bit & 1U) == 0) continue;
    if (!names.empty()) names += ", ";
    names += bit < attribute_names.size() ? std::string(attribute_names[bit])
                                          : "bit " + std::to_string(bit);
  }
  return names;
}

error refused(const std::string& text) {
  return error::invalid_argument("ibv_modify_qp", "software queue pair", text);
}

struct range {
  attribute which;
  std::uint32_t value;
  std::uint32_t lowest;
  std::uint32_t highest;
};

result<void> check_values(const queue_pair_attributes& wanted, attribute_mask mask) {
  constexpr std::uint32_t psn_max = 0xff'ffff;
  const std::array<range, 11> ranges = {
      {{attribute::port, wanted.port, 1, port_state::max_ports},
       {attribute::pkey_index, wanted.pkey_index, 0, port_state::max_pkeys - 1},
       {attribute::path_mtu, wanted.path_mtu, 1, 5},
       {attribute::timeout, wanted.timeout, 0, 31},
       {attribute::retry_count, wanted.retry_count, 0, 7},
       {attribute::rnr_retry, wanted.rnr_retry, 0, 7},
       {attribute::min_rnr_timer, wanted.min_rnr_timer, 0, 31},
       {attribute::max_rd_atomic, wanted.max_rd_atomic, 0, limits::max_rd_atomic},
       {attribute::max_dest_rd_atomic, wanted.max_dest_rd_atomic, 0, limits::max_rd_atomic},
       {attribute::receive_psn, wanted.receive_psn, 0, psn_max},
       {attribute::send_psn, wanted.send_psn, 0, psn_max}}};
  for (const auto& [which, value, lowest, highest] : ranges) {
    if (!mask.contains(which) || (value >= lowest && value <= highest)) continue;
    return refused(names_of(which) + " is " + std::to_string(value) + ", the range is " +
                   std::to_string(lowest) + " to " + std::to_string(highest));
  }
  if (mask.contains(attribute::destination_qpn) &&
      (wanted.destination_qpn > psn_max || wanted.destination_qpn <= 1))
    return refused("DEST_QPN is " + std::to_string(wanted.destination_qpn) +
                   ", but a connected queue pair has a number from 2 to 16777215");
  if (mask.contains(attribute::alternate_path))
    return refused("ALT_PATH does not exist on Ethernet");
  return {};
}

}  // namespace

result<void> check_modification(queue_pair_state current, const queue_pair_attributes& wanted,
                                attribute_mask mask, transport kind) {
  if (mask.contains(attribute::current_state) && wanted.current_state != current)
    return refused("CUR_STATE is " + std::string(name_of(wanted.current_state)) +
                   ", but the queue pair is in " + std::string(name_of(current)));
  const queue_pair_state next = mask.contains(attribute::state) ? wanted.state : current;
  const auto known = find_transition(kind, current, next);
  if (!known)
    return refused("there is no transition from " + std::string(name_of(current)) + " to " +
                   std::string(name_of(next)));
  const auto missing = known->required.without(mask);
  const auto surplus = mask.without(known->required | known->optional | attribute::state);
  if (!missing.empty() || !surplus.empty())
    return refused(std::string(name_of(current)) + " to " + std::string(name_of(next)) + ": " +
                   (missing.empty() ? "" : "missing " + names_of(missing)) +
                   (missing.empty() || surplus.empty() ? "" : "; ") +
                   (surplus.empty() ? "" : "not allowed " + names_of(surplus)));
  return check_values(wanted, mask);
}

void apply(queue_pair_attributes& target, const queue_pair_attributes& wanted,
           attribute_mask mask) {
  const auto copy = [&](attribute which, auto queue_pair_attributes::* member) {
    if (mask.contains(which)) target.*member = wanted.*member;
  };
  // The event is requested for one transition: without the attribute, it is not requested.
  if (mask.contains(attribute::state)) target.sqd_notify = false;
  copy(attribute::sqd_notify, &queue_pair_attributes::sqd_notify);
  copy(attribute::access_flags, &queue_pair_attributes::rights);
  copy(attribute::pkey_index, &queue_pair_attributes::pkey_index);
  copy(attribute::port, &queue_pair_attributes::port);
  copy(attribute::path_mtu, &queue_pair_attributes::path_mtu);
  copy(attribute::timeout, &queue_pair_attributes::timeout);
  copy(attribute::retry_count, &queue_pair_attributes::retry_count);
  copy(attribute::rnr_retry, &queue_pair_attributes::rnr_retry);
  copy(attribute::min_rnr_timer, &queue_pair_attributes::min_rnr_timer);
  copy(attribute::max_rd_atomic, &queue_pair_attributes::max_rd_atomic);
  copy(attribute::max_dest_rd_atomic, &queue_pair_attributes::max_dest_rd_atomic);
  copy(attribute::receive_psn, &queue_pair_attributes::receive_psn);
  copy(attribute::send_psn, &queue_pair_attributes::send_psn);
  copy(attribute::qkey, &queue_pair_attributes::qkey);
  copy(attribute::destination_qpn, &queue_pair_attributes::destination_qpn);
  copy(attribute::address_vector, &queue_pair_attributes::path_to_peer);
  copy(attribute::address_vector, &queue_pair_attributes::destination_lid);
}

time_ns acknowledgement_timeout(std::uint8_t code) noexcept {
  return time_ns{4096} << (code & 31U);
}

time_ns rnr_time(std::uint8_t code) noexcept {
  static constexpr std::array<std::uint32_t, 32> hundredths_of_ms = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return time_ns{hundredths_of_ms[code & 31U]} * 10'000;
}

}  // namespace verbena::softdev
