// SPDX-License-Identifier: MIT
#include "softdev/core/spin_lock.hpp"

#include "softdev/core/spin_wait.hpp"

namespace verbena::softdev {

void spin_lock::lock_slowly() noexcept {
  spin_wait wait;
  while (!try_lock()) wait.once();
}

}  // namespace verbena::softdev
