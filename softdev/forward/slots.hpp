// SPDX-License-Identifier: MIT
// The functions that the forwarders call, by number: one table for the software device and one for
// the real libibverbs.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

// verbs.h hides some of its functions behind macros.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace verbena::forward {

using plain_function = void (*)();

/// A function that is dispatched. Functions without a line in functions.inc are dispatched by hand.
enum class slot : std::uint8_t {
// lint: allow(macro): a row of functions.inc
#define FORWARD(node, how, result, name, parameters, arguments) name,
#include "softdev/forward/functions.inc"
#include "softdev/forward/newer.inc"
#undef FORWARD
  ibv_get_device_list,
  ibv_free_device_list,
  ibv_ack_async_event,
  ibv_import_device,
  verbena_soft_inject_event,
  count
};

inline constexpr std::size_t slot_count = static_cast<std::size_t>(slot::count);

/// Returns the name of the function, as libibverbs exports it.
[[nodiscard]] const char* name_of(slot which) noexcept;

/// Functions by slot; nullptr if the library lacks the function. Threads: immutable once filled.
struct function_table {
  plain_function functions[slot_count] = {};

  /// Returns the function of `which`. Contract: it has the type `Signature`.
  template <class Signature>
  [[nodiscard]] Signature* at(slot which) const noexcept {
    return reinterpret_cast<Signature*>(functions[static_cast<std::size_t>(which)]);
  }
};

}  // namespace verbena::forward
