// SPDX-License-Identifier: MIT
#include "softdev/shim/not_supported.hpp"

#include <type_traits>

namespace verbena::softdev {

void fill_not_supported(verbs_context& context) noexcept {
#define NOT_SUPPORTED_FUNCTION(name, how)
#define NOT_SUPPORTED_REQUEST(name)
#define NOT_SUPPORTED_TRANSPORT(type)
#define NOT_SUPPORTED_ACCESS(flag)
#define NOT_SUPPORTED_MEMBER(name, how) \
  context.name =                        \
      &not_supported<std::remove_pointer_t<decltype(verbs_context::name)>, convention::how>::call;
#define NOT_SUPPORTED_OPERATION(name, how)                                   \
  context.context.ops.name =                                                 \
      &not_supported<std::remove_pointer_t<decltype(ibv_context_ops::name)>, \
                     convention::how>::call;
#include "softdev/shim/not_supported.inc"
#undef NOT_SUPPORTED_FUNCTION
#undef NOT_SUPPORTED_REQUEST
#undef NOT_SUPPORTED_TRANSPORT
#undef NOT_SUPPORTED_ACCESS
#undef NOT_SUPPORTED_MEMBER
#undef NOT_SUPPORTED_OPERATION
}

#define NOT_SUPPORTED_FUNCTION(name, how)
#define NOT_SUPPORTED_MEMBER(name, how)
#define NOT_SUPPORTED_OPERATION(name, how)
#define NOT_SUPPORTED_REQUEST(name)

bool is_unsupported_transport(ibv_qp_type type) noexcept {
#define NOT_SUPPORTED_TRANSPORT(name) || type == name
#define NOT_SUPPORTED_ACCESS(flag)
  return false
#include "softdev/shim/not_supported.inc"
      ;
#undef NOT_SUPPORTED_TRANSPORT
#undef NOT_SUPPORTED_ACCESS
}

bool has_unsupported_access(unsigned flags) noexcept {
#define NOT_SUPPORTED_TRANSPORT(name)
#define NOT_SUPPORTED_ACCESS(flag) \
  | unsigned { flag }
  constexpr unsigned unsupported = 0U
#include "softdev/shim/not_supported.inc"
      ;
  return (flags & unsupported) != 0;
}

}  // namespace verbena::softdev
