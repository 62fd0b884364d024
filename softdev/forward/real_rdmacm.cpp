// SPDX-License-Identifier: MIT
// For the forwarder that has librdmacm's own name.
#include "softdev/forward/real.hpp"

namespace verbena::forward {

void* find_real_rdmacm() noexcept { return find_real_library(); }

}  // namespace verbena::forward
