// SPDX-License-Identifier: MIT
#include "verbena/efa/device_attributes.hpp"

#include <array>
#include <cerrno>

#include "src/verbs/bit_names.hpp"
#include "src/verbs/text.hpp"
#include "verbena/sys/efa_table.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI::efa {

std::string to_string(capabilities of) {
  using verbena::detail::bit;
  static constexpr std::array<verbena::detail::named_bit, 4> names = {{
      {bit(capability::rdma_read), "RDMA_READ"},
      {bit(capability::rnr_retry), "RNR_RETRY"},
      {bit(capability::source_gid), "CQ_WITH_SGID"},
      {bit(capability::rdma_write), "RDMA_WRITE"},
  }};
  return verbena::detail::names_of_bits(of.mask(), names);
}

send_operations device_attributes::operations() const noexcept {
  send_operations all = send_operation::send | send_operation::send_with_immediate;
  if (capabilities().contains(capability::rdma_read)) all |= send_operation::read;
  if (capabilities().contains(capability::rdma_write))
    all |= send_operation::write | send_operation::write_with_immediate;
  return all;
}

std::string to_string(const device_attributes& device) {
  using verbena::detail::add_line;
  std::string text;
  add_line(text, "max send requests", std::to_string(device.max_send_requests()));
  add_line(text, "max receive requests", std::to_string(device.max_receive_requests()));
  add_line(text, "max send slices", std::to_string(device.max_send_sge()));
  add_line(text, "max receive slices", std::to_string(device.max_recv_sge()));
  add_line(text, "max inline bytes", std::to_string(device.max_inline_data()));
  add_line(text, "max RDMA bytes", std::to_string(device.max_rdma_bytes()));
  add_line(text, "EFA capabilities", to_string(device.capabilities()));
  return text;
}

result<device_attributes> query_device(const context& device) {
  VERBENA_TRY(const auto* const functions, efa_functions(device.provider()));
  const auto& verb = functions->query_device;
  sys::efa_device_layout attributes{};
  auto& native = reinterpret_cast<efadv_device_attr&>(attributes);
  const auto status =
      verbena::detail::call(verb, device.native(), &native, std::uint32_t{sizeof attributes});
  if (!status.failed) return device_attributes(native);
  return error::from_errno(
      status.code, verb.name(), device.name(),
      status.code == EOPNOTSUPP
          ? "the device is not an Elastic Fabric Adapter; `verbena devinfo` lists the devices"
          : "");
}

bool is_efa(const context& device) { return query_device(device).has_value(); }

}  // namespace verbena::inline VERBENA_ABI::efa
