// SPDX-License-Identifier: MIT
// For the drop-in librdmacm.
#include "softdev/forward/real.hpp"

namespace verbena::forward {

void* find_real_rdmacm() noexcept { return find_real_library(); }

}  // namespace verbena::forward
