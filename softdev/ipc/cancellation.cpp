// SPDX-License-Identifier: MIT
#include "softdev/ipc/cancellation.hpp"

#include <pthread.h>

#include <utility>

namespace verbena::softdev {
namespace {

constexpr int not_changed = -1;
// The state that the program has set, while without_cancellation has changed it.
constinit thread_local int state_of_program = not_changed;

}  // namespace

without_cancellation::without_cancellation() noexcept
    : is_outermost_(state_of_program == not_changed) {
  if (is_outermost_) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state_of_program);
}

without_cancellation::~without_cancellation() {
  if (is_outermost_) pthread_setcancelstate(std::exchange(state_of_program, not_changed), nullptr);
}

with_cancellation::with_cancellation() noexcept
    : before_(std::exchange(state_of_program, not_changed)) {
  if (before_ != not_changed) pthread_setcancelstate(before_, nullptr);
}

with_cancellation::~with_cancellation() {
  if (before_ == not_changed) return;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  state_of_program = before_;
}

}  // namespace verbena::softdev
