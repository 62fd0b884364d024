// SPDX-License-Identifier: MIT
#include "src/verbs/creation.hpp"

namespace verbena::inline VERBENA_ABI::detail {

error creation_error(int code, std::string_view call, std::string_view object) {
  std::string_view diagnosis;
  switch (code) {
    case ENOMEM:
      diagnosis =
          "the device has no more of them, or the limit of locked memory (ulimit -l) or of the "
          "rdma control group is reached";
      break;
    case EMFILE:
    case ENFILE:
      diagnosis = "too many files are open: raise the limit (ulimit -n)";
      break;
    case ENODEV:
    case EIO:
      diagnosis = "the device is gone";
      break;
    case 0:
      diagnosis = "the provider gave no reason";
      break;
    default:
      break;
  }
  return error::from_errno(code, call, object, diagnosis);
}

}  // namespace verbena::inline VERBENA_ABI::detail
