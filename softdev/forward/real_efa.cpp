// SPDX-License-Identifier: MIT
// For the drop-in libefa.
#include "softdev/forward/real.hpp"

namespace verbena::forward {

void* find_real_efa() noexcept { return find_real_library(); }

}  // namespace verbena::forward
