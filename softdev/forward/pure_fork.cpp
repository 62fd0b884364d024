// SPDX-License-Identifier: MIT
// Protection of registered memory from fork(). The software device needs none: it pins no pages,
// and a forked child opens it itself. These functions therefore call those of the real library, if
// there is one.
#include <infiniband/verbs.h>

#include "softdev/forward/real.hpp"

// Functions that rdma-core's libraries use and verbs.h does not declare.
extern "C" int ibv_dontfork_range(void* base, size_t size);
extern "C" int ibv_dofork_range(void* base, size_t size);

namespace {

template <class Signature>
Signature* real(const char* name) noexcept {
  return reinterpret_cast<Signature*>(verbena::forward::real_function(name, nullptr));
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) int ibv_fork_init() {
  auto* const function = real<decltype(ibv_fork_init)>("ibv_fork_init");
  return function != nullptr ? function() : 0;
}
__attribute__((visibility("default"))) ibv_fork_status ibv_is_fork_initialized() {
  auto* const function = real<decltype(ibv_is_fork_initialized)>("ibv_is_fork_initialized");
  return function != nullptr ? function() : IBV_FORK_UNNEEDED;
}
__attribute__((visibility("default"))) int ibv_dontfork_range(void* base, size_t size) {
  auto* const function = real<decltype(ibv_dontfork_range)>("ibv_dontfork_range");
  return function != nullptr ? function(base, size) : 0;
}
__attribute__((visibility("default"))) int ibv_dofork_range(void* base, size_t size) {
  auto* const function = real<decltype(ibv_dofork_range)>("ibv_dofork_range");
  return function != nullptr ? function(base, size) : 0;
}
}
