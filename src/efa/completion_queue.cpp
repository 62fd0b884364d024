// SPDX-License-Identifier: MIT
#include "verbena/efa/completion_queue.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "src/sys/missing_verb.hpp"
#include "src/verbs/completion_queue_creation.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/efa/device_attributes.hpp"
#include "verbena/sys/efa_table.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI::efa {
namespace {

verbena::detail::created<ibv_cq_ex> create(const context& of, ibv_cq_init_attr_ex& asked) {
  sys::efa_completion_queue_request more{.comp_mask = 0, .wc_flags = 1};
  return verbena::detail::call_create(of.provider().efa->create_cq, of.native(), &asked,
                                      reinterpret_cast<efadv_cq_init_attr*>(&more),
                                      std::uint32_t{sizeof more});
}

}  // namespace

result<address_handle_number> number_of(const address_handle& handle) {
  VERBENA_TRY(const auto* const functions, efa_functions(handle.provider()));
  const auto& verb = functions->query_ah;
  sys::efa_address_layout attributes{};
  const auto status =
      verbena::detail::call(verb, handle.native(), reinterpret_cast<efadv_ah_attr*>(&attributes),
                            std::uint32_t{sizeof attributes});
  if (status.failed) return error::from_errno(status.code, verb.name(), handle.name());
  return address_handle_number(attributes.address_handle);
}

std::optional<gid> completion_queue::source_gid(
    [[maybe_unused]] const lazy_completion& received) const {
  VERBENA_CHECK(efa_queue_.get() != nullptr && received.native() == native_extended(),
                "source_gid() of a completion of another queue");
  ibv_gid found{};
  const auto* const functions =
      reinterpret_cast<const sys::efa_completion_queue_layout*>(efa_queue_.get());
  if (functions->wc_read_sgid(efa_queue_.get(), &found) != 0) return std::nullopt;
  std::array<std::uint8_t, 16> bytes{};
  std::ranges::copy(found.raw, bytes.begin());
  return gid(bytes);
}

result<completion_queue> create_cq(const context& of, std::uint32_t capacity,
                                   const extended_completion_queue_options& options) {
  VERBENA_TRY(const auto device, query_device(of));
  const std::string missing = sys::explain_missing(of.provider(), "efadv_create_cq");
  if (!missing.empty() || !device.capabilities().contains(capability::source_gid))
    return error::not_supported(
        "efadv_create_cq", of.name(),
        (missing.empty() ? "this EFA is an older device, whose completions have no GIDs of senders"
                         : missing) +
            "; use context::create_extended_cq()");
  VERBENA_TRY(auto queue, verbena::detail::create_extended_queue(of, capacity, options,
                                                                 {"efadv_create_cq", &create}));
  efadv_cq* const efa_queue = of.provider().efa->cq_from_ibv_cq_ex(queue.native_extended());
  return completion_queue(std::move(queue), efa_queue);
}

close_result<completion_queue> completion_queue::close() && {
  return close_handle(std::move(*this));
}

}  // namespace verbena::inline VERBENA_ABI::efa
