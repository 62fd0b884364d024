// SPDX-License-Identifier: MIT
// Determines whether the software device owns an object, and thereby the library of a call.
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

/// For kinds of objects that the software device does not have.
[[nodiscard]] inline bool owned_by_soft(const void* /*object*/) noexcept { return false; }

template <class Object>
[[nodiscard]] bool owned_by_soft(const Object* object) noexcept {
  return is_soft(object->context->device);
}

}  // namespace verbena::forward
