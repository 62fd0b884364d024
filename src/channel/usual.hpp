// SPDX-License-Identifier: MIT
// What most operations are: one piece of memory, and no further wishes.
#pragma once

#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/source.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The one piece of `data`; nullptr if it is not that simple.
[[gnu::always_inline]] inline const source* usual(const outgoing& data,
                                                  const operation_options& options) noexcept {
  if (data.sources().size() != 1 || options.immediate || options.fenced || options.solicited)
    return nullptr;
  return data.sources().data();
}

}  // namespace verbena::inline VERBENA_ABI::detail
