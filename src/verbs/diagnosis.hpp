// SPDX-License-Identifier: MIT
// Likely causes of failed verbs and their remedies. For use after a failure only: the functions
// read limits and may query the device.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "verbena/base/ids.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/device.hpp"
#include "verbena/verbs/memory_advice.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns why listing devices failed.
[[nodiscard]] std::string explain_listing(int code);
/// Returns the devices of the kernel that are not in `listed`, because libibverbs has no driver for
/// them, and the remedy. Returns an empty string if there is no such device.
[[nodiscard]] std::string explain_missing_hardware(std::span<const device> listed);
[[nodiscard]] std::string explain_opening(int code);

/// A device that the functions query for its limits.
struct queried_device {
  const provider* from;
  ibv_context* context;
};
[[nodiscard]] std::string explain_port(int code, queried_device device, port_number port);
[[nodiscard]] std::string explain_pd(int code, queried_device device);

/// A memory region that could not be registered.
struct registration {
  const void* memory;
  std::size_t bytes;
  access_flags access;
  bool offset_in_page_differs = false;  ///< between the memory and its iova
};
/// Returns whether two addresses have different offsets in their pages.
[[nodiscard]] bool differ_in_page(std::uint64_t a, std::uint64_t b) noexcept;
[[nodiscard]] std::string explain_registration(int code, queried_device device,
                                               registration wanted);
[[nodiscard]] std::string explain_dmabuf(int code, queried_device device, registration wanted);
[[nodiscard]] std::string explain_advice(int code, memory_advice advice);
/// Returns why mmap(2) or the software device did not allocate memory.
[[nodiscard]] std::string explain_allocation(int code, std::size_t bytes, bool huge_pages);

}  // namespace verbena::inline VERBENA_ABI::detail
