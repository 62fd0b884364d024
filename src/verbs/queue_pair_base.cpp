// SPDX-License-Identifier: MIT
#include "verbena/verbs/queue_pair_base.hpp"

#include <cerrno>
#include <string>

#include "src/verbs/address_diagnosis.hpp"
#include "src/verbs/in_flight.hpp"
#include "src/verbs/queue_pair_creation.hpp"
#include "src/verbs/queue_pair_transitions.hpp"
#include "src/verbs/queue_pair_values.hpp"
#include "src/verbs/rxe_defects.hpp"

namespace verbena::inline VERBENA_ABI {

queue_pair_number queue_pair_base::number() const {
  return queue_pair_number(native()->qp_num & queue_pair_number::max);
}

result<void> queue_pair_base::modify(const queue_pair_attributes& changes) {
  ibv_qp_attr attributes = changes.native();
  const auto& verbs = state().verbs();
  const auto status =
      detail::call(verbs.modify_qp, native(), &attributes, static_cast<int>(changes.mask().mask()));
  if (!status.failed) {
    if (const auto to = changes.state())
      detail::watch_state(native(), static_cast<ibv_qp_state>(*to));
    return {};
  }
  std::string diagnosis;
  switch (status.code) {
    case EINVAL:
      if (const auto from = current_state()) {
        diagnosis = detail::explain_transition(
            {native()->qp_type, *from, changes.state().value_or(*from)}, changes.mask());
        if (diagnosis.empty())
          diagnosis = detail::explain_values({&provider(), native()->context}, changes);
      }
      break;
    case ETIMEDOUT:
    case ENETUNREACH:
    case EHOSTUNREACH:
      if (const auto to = changes.address())
        diagnosis = detail::explain_route(status.code, {&provider(), native()->context}, *to);
      break;
    default:
      break;
  }
  return error::from_errno(status.code, "ibv_modify_qp", name(), diagnosis);
}

result<void> queue_pair_base::reset() {
  return modify(queue_pair_attributes().set_state(queue_pair_state::reset));
}

result<queue_pair_attributes> queue_pair_base::query(queue_pair_attribute_mask wanted) const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr unused{};
  if (const auto status = detail::call(state().verbs().query_qp, native(), &attributes,
                                       static_cast<int>(wanted.mask()), &unused);
      status.failed)
    return error::from_errno(status.code, "ibv_query_qp", name());
  return queue_pair_attributes(attributes, wanted);
}

result<queue_pair_state> queue_pair_base::current_state() const {
  VERBENA_TRY(const auto attributes, query(queue_pair_attribute::state));
  return *attributes.state();
}

namespace detail {

created_queue_pair adopt_queue_pair(ibv_qp* native, const protection_domain& pd, ownership owner,
                                    ibv_qp_type type) {
  VERBENA_ASSERT(native != nullptr, "queue_pair::adopt() with a null pointer");
  VERBENA_ASSERT(native->pd == pd.native() && native->context == pd.native()->context,
                 "queue_pair::adopt() with another protection domain");
  VERBENA_ASSERT(native->qp_type == type,
                 "queue_pair::adopt() with a queue pair of another transport");
  return {.state = adopt_queue_pair_state(native, pd, owner), .extended = nullptr, .granted = {}};
}

created_queue_pair adopt_queue_pair(ibv_qp_ex* native, const protection_domain& pd, ownership owner,
                                    ibv_qp_type type) {
  VERBENA_ASSERT(native != nullptr, "queue_pair::adopt() with a null pointer");
  created_queue_pair adopted = adopt_queue_pair(&native->qp_base, pd, owner, type);
  adopted.extended = native;
  adopted.prefers_classic = is_rxe(pd.context()).value_or(false);
  if (adopted.prefers_classic && owner == ownership::take) correct_lists(*native);
  return adopted;
}

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
