// SPDX-License-Identifier: MIT
#include "verbena/verbs/queue_pair_attributes.hpp"
#include "verbena/base/enum_bits.hpp"

#include <algorithm>
#include <array>

#include "src/verbs/bit_names.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

using attribute = queue_pair_attribute;

constexpr std::array<const char*, 7> state_names = {"RESET", "INIT", "RTR", "RTS",
                                                    "SQD",   "SQE",  "ERR"};

constexpr std::array<detail::named_bit, 22> attribute_names = {{
    {IBV_QP_STATE, "STATE"},
    {IBV_QP_CUR_STATE, "CUR_STATE"},
    {IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY"},
    {IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS"},
    {IBV_QP_PKEY_INDEX, "PKEY_INDEX"},
    {IBV_QP_PORT, "PORT"},
    {IBV_QP_QKEY, "QKEY"},
    {IBV_QP_AV, "AV"},
    {IBV_QP_PATH_MTU, "PATH_MTU"},
    {IBV_QP_TIMEOUT, "TIMEOUT"},
    {IBV_QP_RETRY_CNT, "RETRY_CNT"},
    {IBV_QP_RNR_RETRY, "RNR_RETRY"},
    {IBV_QP_RQ_PSN, "RQ_PSN"},
    {IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"},
    {IBV_QP_ALT_PATH, "ALT_PATH"},
    {IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER"},
    {IBV_QP_SQ_PSN, "SQ_PSN"},
    {IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"},
    {IBV_QP_PATH_MIG_STATE, "PATH_MIG_STATE"},
    {IBV_QP_CAP, "CAP"},
    {IBV_QP_DEST_QPN, "DEST_QPN"},
    {IBV_QP_RATE_LIMIT, "RATE_LIMIT"},
}};

// Returns `make()` if `which` is in `mask`.
template <class Make>
auto if_set(queue_pair_attribute_mask mask, attribute which, Make&& make)
    -> std::optional<decltype(make())> {
  if (!mask.contains(which)) return std::nullopt;
  return make();
}

}  // namespace

std::string to_string(queue_pair_state state) {
  const auto index = static_cast<std::size_t>(state);
  return index < state_names.size() ? state_names[index] : detail::unknown_value(index);
}

std::string to_string(queue_pair_attribute_mask mask) {
  return detail::names_of_bits(mask.mask(), attribute_names);
}

queue_pair_attributes& queue_pair_attributes::set_state(queue_pair_state state) noexcept {
  native_.qp_state = static_cast<ibv_qp_state>(state);
  mask_ |= attribute::state;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_current_state(queue_pair_state state) noexcept {
  native_.cur_qp_state = static_cast<ibv_qp_state>(state);
  mask_ |= attribute::current_state;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_drained_notification(bool wanted) noexcept {
  native_.en_sqd_async_notify = wanted ? 1 : 0;
  mask_ |= attribute::drained_notification;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_access(access_flags access) noexcept {
  native_.qp_access_flags = access.mask();
  mask_ |= attribute::access;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_pkey_index(std::uint16_t index) noexcept {
  native_.pkey_index = index;
  mask_ |= attribute::pkey_index;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_port(port_number port) noexcept {
  native_.port_num = port.value();
  mask_ |= attribute::port;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_qkey(queue_key key) noexcept {
  native_.qkey = key.value();
  mask_ |= attribute::qkey;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_address(const address_vector& to) {
  native_.ah_attr = detail::native_address(to);
  mask_ |= attribute::address;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_path_mtu(mtu largest) noexcept {
  native_.path_mtu = static_cast<ibv_mtu>(largest);
  mask_ |= attribute::path_mtu;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_timeout(ack_timeout timeout) noexcept {
  native_.timeout = timeout.exponent();
  mask_ |= attribute::timeout;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_retry_count(std::uint8_t count) {
  VERBENA_ASSERT(count <= 7, "a retry count exceeds 7");
  native_.retry_cnt = count;
  mask_ |= attribute::retry_count;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_rnr_retry_count(std::uint8_t count) {
  VERBENA_ASSERT(count <= 7, "an RNR retry count exceeds 7");
  native_.rnr_retry = count;
  mask_ |= attribute::rnr_retry_count;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_receive_psn(packet_sequence_number psn) noexcept {
  native_.rq_psn = psn.value();
  mask_ |= attribute::receive_psn;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_send_psn(packet_sequence_number psn) noexcept {
  native_.sq_psn = psn.value();
  mask_ |= attribute::send_psn;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_initiator_depth(std::uint8_t count) noexcept {
  native_.max_rd_atomic = count;
  mask_ |= attribute::initiator_depth;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_responder_resources(std::uint8_t count) noexcept {
  native_.max_dest_rd_atomic = count;
  mask_ |= attribute::responder_resources;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_min_rnr_timer(rnr_timer timer) noexcept {
  native_.min_rnr_timer = timer.encoding();
  mask_ |= attribute::min_rnr_timer;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::set_destination(queue_pair_number peer) noexcept {
  native_.dest_qp_num = peer.value();
  mask_ |= attribute::destination;
  return *this;
}

queue_pair_attributes& queue_pair_attributes::remove(
    queue_pair_attribute_mask attributes) noexcept {
  mask_ = mask_.without(attributes);
  return *this;
}

std::optional<queue_pair_state> queue_pair_attributes::state() const noexcept {
  return if_set(mask_, attribute::state,
                [&] { return enum_from_bits<queue_pair_state>(native_.qp_state); });
}

std::optional<queue_pair_state> queue_pair_attributes::current_state() const noexcept {
  return if_set(mask_, attribute::current_state,
                [&] { return enum_from_bits<queue_pair_state>(native_.cur_qp_state); });
}

std::optional<access_flags> queue_pair_attributes::access() const noexcept {
  return if_set(mask_, attribute::access,
                [&] { return access_flags::from_mask(native_.qp_access_flags); });
}

std::optional<std::uint16_t> queue_pair_attributes::pkey_index() const noexcept {
  return if_set(mask_, attribute::pkey_index, [&] { return native_.pkey_index; });
}

std::optional<port_number> queue_pair_attributes::port() const noexcept {
  return if_set(mask_, attribute::port, [&] { return port_number(native_.port_num); });
}

std::optional<queue_key> queue_pair_attributes::qkey() const noexcept {
  return if_set(mask_, attribute::qkey, [&] { return queue_key(native_.qkey); });
}

std::optional<address_vector> queue_pair_attributes::address() const noexcept {
  return if_set(mask_, attribute::address, [&] { return detail::from_native(native_.ah_attr); });
}

std::optional<mtu> queue_pair_attributes::path_mtu() const noexcept {
  return if_set(mask_, attribute::path_mtu, [&] { return enum_from_bits<mtu>(native_.path_mtu); });
}

std::optional<ack_timeout> queue_pair_attributes::timeout() const {
  return if_set(mask_, attribute::timeout, [&] {
    return ack_timeout::from_exponent(native_.timeout & ack_timeout::max_exponent);
  });
}

std::optional<std::uint8_t> queue_pair_attributes::retry_count() const noexcept {
  return if_set(mask_, attribute::retry_count, [&] { return native_.retry_cnt; });
}

std::optional<std::uint8_t> queue_pair_attributes::rnr_retry_count() const noexcept {
  return if_set(mask_, attribute::rnr_retry_count, [&] { return native_.rnr_retry; });
}

std::optional<packet_sequence_number> queue_pair_attributes::receive_psn() const {
  return if_set(mask_, attribute::receive_psn, [&] {
    return packet_sequence_number(native_.rq_psn & packet_sequence_number::max);
  });
}

std::optional<packet_sequence_number> queue_pair_attributes::send_psn() const {
  return if_set(mask_, attribute::send_psn, [&] {
    return packet_sequence_number(native_.sq_psn & packet_sequence_number::max);
  });
}

std::optional<std::uint8_t> queue_pair_attributes::initiator_depth() const noexcept {
  return if_set(mask_, attribute::initiator_depth, [&] { return native_.max_rd_atomic; });
}

std::optional<std::uint8_t> queue_pair_attributes::responder_resources() const noexcept {
  return if_set(mask_, attribute::responder_resources, [&] { return native_.max_dest_rd_atomic; });
}

std::optional<rnr_timer> queue_pair_attributes::min_rnr_timer() const {
  return if_set(mask_, attribute::min_rnr_timer,
                [&] { return rnr_timer::from_encoding(native_.min_rnr_timer & 31); });
}

std::optional<queue_pair_number> queue_pair_attributes::destination() const {
  return if_set(mask_, attribute::destination,
                [&] { return queue_pair_number(native_.dest_qp_num & queue_pair_number::max); });
}

}  // namespace verbena::inline VERBENA_ABI
