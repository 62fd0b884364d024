// SPDX-License-Identifier: MIT
#include "src/verbs/creation.hpp"

#include <fmt/format.h>

namespace verbena::inline VERBENA_ABI::detail {

error creation_error(int code, std::string_view call, std::string_view object) {
  std::string_view diagnosis;
  switch (code) {
    case ENOMEM:
      diagnosis =
          "the device has no free object of this type, or the limit of locked memory (ulimit -l) "
          "or of the rdma control group is reached";
      break;
    case EMFILE:
    case ENFILE:
      diagnosis = "too many files are open: raise the limit (ulimit -n)";
      break;
    case ENODEV:
    case EIO:
      diagnosis = "the device was removed or has failed";
      break;
    case 0:
      diagnosis = "the provider did not set errno";
      break;
    default:
      break;
  }
  return error::from_errno(code, call, object, diagnosis);
}

std::string above_limits(std::initializer_list<requested_amount> amounts) {
  std::string text;
  for (const auto& [what, requested, limit] : amounts) {
    if (limit < 0 || requested <= static_cast<std::uint32_t>(limit)) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {} exceeds the device's maximum of {}", what, requested, limit);
  }
  return text;
}

}  // namespace verbena::inline VERBENA_ABI::detail
