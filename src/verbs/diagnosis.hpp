// SPDX-License-Identifier: MIT
// The likely causes of a failed verb, and what to do about them. Only asked after a failure: these
// functions read limits and may ask the device again.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "verbena/base/ids.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/memory_advice.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Why listing devices failed.
[[nodiscard]] std::string explain_listing(int code);
/// Why the list of hardware is empty although there may be some: devices of the kernel's that
/// libibverbs has no driver for. Empty if there are none.
[[nodiscard]] std::string explain_missing_hardware();
[[nodiscard]] std::string explain_opening(int code);

/// A device whose verbs may be asked for the limits that were hit.
struct asked_device {
  const provider* from;
  ibv_context* context;
};
[[nodiscard]] std::string explain_port(int code, asked_device device, port_number port);
[[nodiscard]] std::string explain_pd(int code, asked_device device);

/// What was to be registered.
struct registration {
  const void* memory;
  std::size_t bytes;
  access_flags access;
  bool offset_in_page_differs = false;  ///< of the memory and of the address it was to have
};
/// Whether two addresses lie at different places in their pages.
[[nodiscard]] bool differ_in_page(std::uint64_t a, std::uint64_t b) noexcept;
[[nodiscard]] std::string explain_registration(int code, asked_device device, registration wanted);
[[nodiscard]] std::string explain_dmabuf(int code, asked_device device, registration wanted);
[[nodiscard]] std::string explain_advice(int code, memory_advice advice);
/// Why mmap(2) or the software device gave no memory.
[[nodiscard]] std::string explain_allocation(int code, std::size_t bytes, bool huge_pages);

}  // namespace verbena::inline VERBENA_ABI::detail
