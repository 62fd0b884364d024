// SPDX-License-Identifier: MIT
// Source of the table: InfiniBand Architecture Specification 11.2.5.2 (modify queue pair) as in
// ibv_modify_qp(3), with the optional attributes that Linux accepts.
#include "src/verbs/queue_pair_transitions.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::inline VERBENA_ABI::detail {
namespace {

using state = queue_pair_state;
using mask = std::uint32_t;

// Types of queue pairs with the same rules.
enum class family : std::uint8_t { rc, uc, ud, xrc_initiator, xrc_target, unknown };

struct rule {
  family of;
  state from;
  state to;
  mask required;
  mask optional;
};

constexpr mask pkey_port = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr mask connected_init = pkey_port | IBV_QP_ACCESS_FLAGS;
constexpr mask datagram_init = pkey_port | IBV_QP_QKEY;
constexpr mask path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr mask responder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr mask requester =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr mask rtr_extra = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
constexpr mask datagram_extra = IBV_QP_PKEY_INDEX | IBV_QP_QKEY;
constexpr mask rts_extra =
    IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE;
constexpr mask rts_responder_extra = rts_extra | IBV_QP_MIN_RNR_TIMER;
constexpr mask datagram_rts_extra = IBV_QP_CUR_STATE | IBV_QP_QKEY;
constexpr mask drained_extra = IBV_QP_AV | rtr_extra | IBV_QP_PATH_MIG_STATE;
constexpr mask drained_requester =
    IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

constexpr rule rules[] = {
    {family::rc, state::reset, state::init, connected_init, 0},
    {family::uc, state::reset, state::init, connected_init, 0},
    {family::ud, state::reset, state::init, datagram_init, 0},
    {family::xrc_initiator, state::reset, state::init, connected_init, 0},
    {family::xrc_target, state::reset, state::init, connected_init, 0},

    {family::rc, state::init, state::init, 0, connected_init},
    {family::uc, state::init, state::init, 0, connected_init},
    {family::ud, state::init, state::init, 0, datagram_init},
    {family::xrc_initiator, state::init, state::init, 0, connected_init},
    {family::xrc_target, state::init, state::init, 0, connected_init},

    {family::rc, state::init, state::ready_to_receive, path | responder, rtr_extra},
    {family::uc, state::init, state::ready_to_receive, path, rtr_extra},
    {family::ud, state::init, state::ready_to_receive, 0, datagram_extra},
    {family::xrc_initiator, state::init, state::ready_to_receive, path, rtr_extra},
    {family::xrc_target, state::init, state::ready_to_receive, path | responder, rtr_extra},

    {family::rc, state::ready_to_receive, state::ready_to_send, requester, rts_responder_extra},
    {family::uc, state::ready_to_receive, state::ready_to_send, IBV_QP_SQ_PSN, rts_extra},
    {family::ud, state::ready_to_receive, state::ready_to_send, IBV_QP_SQ_PSN, datagram_rts_extra},
    {family::xrc_initiator, state::ready_to_receive, state::ready_to_send, requester, rts_extra},
    {family::xrc_target, state::ready_to_receive, state::ready_to_send,
     IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, rts_responder_extra},

    {family::rc, state::ready_to_send, state::ready_to_send, 0, rts_responder_extra},
    {family::uc, state::ready_to_send, state::ready_to_send, 0, rts_extra},
    {family::ud, state::ready_to_send, state::ready_to_send, 0, datagram_rts_extra},
    {family::xrc_initiator, state::ready_to_send, state::ready_to_send, 0, rts_extra},
    {family::xrc_target, state::ready_to_send, state::ready_to_send, 0, rts_responder_extra},

    {family::rc, state::ready_to_send, state::send_queue_drain, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {family::uc, state::ready_to_send, state::send_queue_drain, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {family::ud, state::ready_to_send, state::send_queue_drain, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {family::xrc_initiator, state::ready_to_send, state::send_queue_drain, 0,
     IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {family::xrc_target, state::ready_to_send, state::send_queue_drain, 0,
     IBV_QP_EN_SQD_ASYNC_NOTIFY},

    {family::rc, state::send_queue_drain, state::ready_to_send, 0, rts_responder_extra},
    {family::uc, state::send_queue_drain, state::ready_to_send, 0, rts_extra},
    {family::ud, state::send_queue_drain, state::ready_to_send, 0, datagram_rts_extra},
    {family::xrc_initiator, state::send_queue_drain, state::ready_to_send, 0, rts_extra},
    {family::xrc_target, state::send_queue_drain, state::ready_to_send, 0, rts_responder_extra},

    {family::rc, state::send_queue_drain, state::send_queue_drain, 0,
     drained_extra | drained_requester | responder},
    {family::uc, state::send_queue_drain, state::send_queue_drain, 0, drained_extra},
    {family::ud, state::send_queue_drain, state::send_queue_drain, 0, datagram_extra},
    {family::xrc_initiator, state::send_queue_drain, state::send_queue_drain, 0,
     drained_extra | drained_requester},
    {family::xrc_target, state::send_queue_drain, state::send_queue_drain, 0,
     drained_extra | IBV_QP_PORT | IBV_QP_TIMEOUT | responder},

    {family::uc, state::send_queue_error, state::ready_to_send, 0,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
    {family::ud, state::send_queue_error, state::ready_to_send, 0, datagram_rts_extra},
};

family family_of(ibv_qp_type type) noexcept {
  switch (type) {
    case IBV_QPT_RC:
      return family::rc;
    case IBV_QPT_UC:
      return family::uc;
    case IBV_QPT_UD:
      return family::ud;
    case IBV_QPT_XRC_SEND:
      return family::xrc_initiator;
    case IBV_QPT_XRC_RECV:
      return family::xrc_target;
    default:
      return family::unknown;
  }
}

// Returns the rule of a transition; nullptr if the transition does not exist.
const rule* find(family of, state from, state to) noexcept {
  static constexpr std::array<rule, 2> anywhere = {
      {{family::unknown, state::reset, state::reset, 0, 0},
       {family::unknown, state::reset, state::error, 0, 0}}};
  if (to == state::reset) return &anywhere[0];
  if (to == state::error) return from == state::reset ? nullptr : &anywhere[1];
  for (const rule& candidate : rules)
    if (candidate.of == of && candidate.from == from && candidate.to == to) return &candidate;
  return nullptr;
}

// Returns the attributes that at least one transition of this family sets.
mask known_to(family of) noexcept {
  mask all = IBV_QP_STATE | IBV_QP_CAP;
  for (const rule& each : rules)
    if (each.of == of) all |= each.required | each.optional;
  return all;
}

const char* name_of(family of) noexcept {
  static constexpr const char* names[] = {"RC", "UC", "UD", "XRC initiator", "XRC target"};
  return names[static_cast<std::size_t>(of)];
}

}  // namespace

std::string explain_transition(transition change, queue_pair_attribute_mask given) {
  const family of = family_of(change.type);
  if (of == family::unknown) return {};
  const std::string edge =
      fmt::format("transition from {} to {}", to_string(change.from), to_string(change.to));
  const rule* const found = find(of, change.from, change.to);
  if (found == nullptr) return fmt::format("there is no {}", edge);

  const auto missing = queue_pair_attribute_mask::from_mask(found->required).without(given);
  const auto excess = given.without(
      queue_pair_attribute_mask::from_mask(found->required | found->optional | IBV_QP_STATE));
  if (missing.empty() && excess.empty()) return {};
  std::string text = fmt::format("the {}", edge);
  if (!missing.empty()) text += fmt::format(" needs {}, which is missing", to_string(missing));
  if (!missing.empty() && !excess.empty()) text += ", and";
  if (!excess.empty()) text += fmt::format(" does not permit {}", to_string(excess));
  const auto foreign = excess.without(queue_pair_attribute_mask::from_mask(known_to(of)));
  if (!foreign.empty())
    text += fmt::format("; {} queue pairs do not have {}", name_of(of), to_string(foreign));
  return text;
}

}  // namespace verbena::inline VERBENA_ABI::detail
