// SPDX-License-Identifier: MIT
#include "verbena/verbs/memory_advice.hpp"

#include "src/verbs/text.hpp"

namespace verbena::inline VERBENA_ABI {

static_assert(static_cast<int>(memory_advice::prefetch) == IBV_ADVISE_MR_ADVICE_PREFETCH);
static_assert(static_cast<int>(memory_advice::prefetch_write) ==
              IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);

std::string to_string(memory_advice advice) {
  switch (advice) {
    case memory_advice::prefetch:
      return "prefetch";
    case memory_advice::prefetch_write:
      return "prefetch_write";
    case memory_advice::prefetch_no_fault:
      return "prefetch_no_fault";
  }
  return detail::unknown_value(static_cast<std::uint32_t>(advice));
}

}  // namespace verbena::inline VERBENA_ABI
