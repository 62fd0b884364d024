// SPDX-License-Identifier: MIT
#include "verbena/verbs/shared_receive_queue.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <string>

#include "src/verbs/creation.hpp"
#include "src/verbs/in_flight.hpp"
#include "src/verbs/protection_domain_creation.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// Makes a handle that the checker does not know yet.
shared_receive_queue make_handle(ibv_srq* native, const protection_domain& pd, ownership owner) {
  return detail::make_child<shared_receive_queue, detail::shared_receive_queue_state>(
      native, pd, owner, "shared receive queue");
}

shared_receive_queue watched(shared_receive_queue made) {
  detail::watch(made.native(), made.name());
  return made;
}

// Returns the options that exceed a limit of the device; an empty string if no option does.
std::string exceeded_limits(const protection_domain& pd, shared_receive_queue_options asked) {
  ibv_device_attr limits{};
  if (detail::call(pd.provider().verbs.query_device, pd.native()->context, &limits).failed)
    return {};
  if (limits.max_srq == 0) return "the device does not support shared receive queues";
  return detail::above_limits({{"max_wr", asked.max_wr, limits.max_srq_wr},
                               {"max_sge", asked.max_sge, limits.max_srq_sge}});
}

}  // namespace

result<shared_receive_queue> protection_domain::create_srq(
    const shared_receive_queue_options& options) const {
  if (options.max_wr == 0)
    return error::invalid_argument("create_srq", name(),
                                   "max_wr is 0; a shared receive queue has room for at least one "
                                   "receive");
  ibv_srq_init_attr asked{};
  asked.attr.max_wr = options.max_wr;
  asked.attr.max_sge = options.max_sge;
  const auto& verb = provider().verbs.create_srq;
  const auto made = detail::call_create(verb, native(), &asked);
  if (made)
    return watched(detail::make_owner(provider().verbs, made.native, [&](ibv_srq* owned) {
      return make_handle(owned, *this, ownership::take);
    }));
  error failed = detail::creation_error(made.code, verb.name(), name());
  const std::string exceeded = exceeded_limits(*this, options);
  return exceeded.empty() ? failed : std::move(failed).with_diagnosis(exceeded);
}

shared_receive_queue shared_receive_queue::adopt(ibv_srq* native, const protection_domain& pd,
                                                 ownership owner) {
  VERBENA_ASSERT(native != nullptr, "shared_receive_queue::adopt() with a null pointer");
  VERBENA_ASSERT(native->pd == pd.native(),
                 "shared_receive_queue::adopt() with another protection domain");
  return watched(make_handle(native, pd, owner));
}

result<shared_receive_queue_attributes> shared_receive_queue::query() const {
  ibv_srq_attr now{};
  if (const auto status = detail::call(state().verbs().query_srq, native(), &now); status.failed)
    return error::from_errno(status.code, "ibv_query_srq", name());
  return shared_receive_queue_attributes{
      .max_wr = now.max_wr, .max_sge = now.max_sge, .limit = now.srq_limit};
}

result<void> shared_receive_queue::arm_limit(std::uint32_t limit) const {
  ibv_srq_attr changes{};
  changes.srq_limit = limit;
  const auto status =
      detail::call(state().verbs().modify_srq, native(), &changes, int{IBV_SRQ_LIMIT});
  if (!status.failed) return {};
  std::string diagnosis;
  if (const auto now = query(); status.code == EINVAL && now && limit > now->max_wr)
    diagnosis =
        fmt::format("the limit {} exceeds the queue's capacity of {} receives", limit, now->max_wr);
  return error::from_errno(status.code, "ibv_modify_srq", name(), diagnosis);
}

result<void> shared_receive_queue::resize(std::uint32_t max_wr) const {
  ibv_srq_attr changes{};
  changes.max_wr = max_wr;
  const auto status =
      detail::call(state().verbs().modify_srq, native(), &changes, int{IBV_SRQ_MAX_WR});
  if (!status.failed) return {};
  std::string diagnosis;
  ibv_device_attr limits{};
  const bool known = !detail::call(state().verbs().query_device, native()->context, &limits).failed;
  if (status.code == EINVAL && known && max_wr > static_cast<std::uint32_t>(limits.max_srq_wr))
    diagnosis = detail::above_limits({{"the new size", max_wr, limits.max_srq_wr}});
  else if (status.code == EINVAL)
    diagnosis = fmt::format(
        "the device does not support resizing of shared receive queues, or "
        "more than {} receives are outstanding",
        max_wr);
  return error::from_errno(status.code, "ibv_modify_srq", name(), diagnosis);
}

close_result<shared_receive_queue> shared_receive_queue::close() && {
  return close_handle(std::move(*this));
}

}  // namespace verbena::inline VERBENA_ABI
