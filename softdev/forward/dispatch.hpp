// SPDX-License-Identifier: MIT
// Whose an object is, which decides the library that a call goes to.
#pragma once

#include "softdev/forward/engine.hpp"

namespace verbena::forward {

[[nodiscard]] inline bool owned_by_soft(const ibv_device* device) noexcept {
  return is_soft(device);
}
[[nodiscard]] inline bool owned_by_soft(const ibv_context* context) noexcept {
  return is_soft(context->device);
}
[[nodiscard]] inline bool owned_by_soft(const ibv_qp_ex* qp) noexcept {
  return is_soft(qp->qp_base.context->device);
}

/// Objects of kinds that the software device does not have.
[[nodiscard]] inline bool owned_by_soft(const void* /*object*/) noexcept { return false; }

template <class Object>
[[nodiscard]] bool owned_by_soft(const Object* object) noexcept {
  return is_soft(object->context->device);
}

}  // namespace verbena::forward
