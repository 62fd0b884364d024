// SPDX-License-Identifier: MIT
#include "verbena/efa/srd.hpp"

#include <cerrno>
#include <string>
#include <utility>

#include "src/verbs/creation.hpp"
#include "verbena/efa/device_attributes.hpp"
#include "verbena/sys/efa_table.hpp"
#include "verbena/sys/layouts.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

// Which of the device's limits `asked` exceeds; empty if none.
std::string exceeded_limits(const efa::device_attributes& device, const ibv_qp_cap& asked) {
  const auto limit = [](std::uint32_t most) { return static_cast<int>(most); };
  return above_limits(
      {{"max_send_wr", asked.max_send_wr, limit(device.max_send_requests())},
       {"max_recv_wr", asked.max_recv_wr, limit(device.max_receive_requests())},
       {"max_send_sge", asked.max_send_sge, limit(device.max_send_sge())},
       {"max_recv_sge", asked.max_recv_sge, limit(device.max_recv_sge())},
       {"max_inline_data", asked.max_inline_data, limit(device.max_inline_data())}});
}

// Returns the fault in `asked` according to the device's attributes.
std::string explain(const efa::device_attributes& device, const ibv_qp_init_attr_ex& asked) {
  const auto wanted = send_operations::from_mask(asked.send_ops_flags);
  if (const auto missing = wanted.without(device.operations()); !missing.empty())
    return "queue pairs of SRD do not have " + to_string(missing) + " on this device, they have " +
           to_string(device.operations());
  return exceeded_limits(device, asked.cap);
}

}  // namespace

result<native_queue_pair> create_srd_qp(const protection_domain& pd,
                                        const queue_pair_request& request,
                                        ibv_qp_init_attr_ex& asked) {
  VERBENA_TRY(const auto device, efa::query_device(pd.context()));
  if (request.operations.empty()) asked.send_ops_flags = device.operations().mask();
  VERBENA_TRY(const auto* const functions, efa_functions(pd.provider()));
  sys::efa_queue_pair_layout kind{.comp_mask = 0, .type = 0, .reserved = 0};
  const auto made =
      call_create(functions->create_qp_ex, pd.native()->context, &asked,
                  reinterpret_cast<efadv_qp_init_attr*>(&kind), std::uint32_t{sizeof kind});
  if (made) return native_queue_pair{made.native, pd.provider().verbs.qp_to_qp_ex(made.native)};
  error failed = creation_error(made.code, functions->create_qp_ex.name(), pd.name());
  const std::string cause = explain(device, asked);
  return cause.empty() ? failed : std::move(failed).with_diagnosis(cause);
}

}  // namespace verbena::inline VERBENA_ABI::detail
