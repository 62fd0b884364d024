// SPDX-License-Identifier: MIT
// Waits for completions by polling.
#pragma once

#include <array>

#include "verbena/verbs/completion.hpp"
#include "verbena/verbs/completion_queue.hpp"

namespace guide {

// [wait_for]
// Polls until `count` requests have completed. Throws if one failed.
inline void wait_for(const verbena::completion_queue& cq, int count) {
  std::array<verbena::completion, 16> room;
  while (count > 0)
    for (const auto& done : cq.poll(room).value()) {
      done.result().value();
      --count;
    }
}
// [/wait_for]

}  // namespace guide
