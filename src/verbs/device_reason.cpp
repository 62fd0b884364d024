// SPDX-License-Identifier: MIT
#include "src/verbs/device_reason.hpp"

#include <algorithm>
#include <cstddef>

namespace verbena::inline VERBENA_ABI::detail {

std::string device_reason(const provider& of, const failed_completion& failed) {
  const auto explain = of.soft_explain;
  if (explain == nullptr || failed.status == completion_status::success) return {};
  std::string text(512, '\0');
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::size_t length = explain(failed.queue_pair.value(), failed.id, failed.vendor_error,
                                       text.data(), text.size());
    const bool complete = length < text.size();
    text.resize(complete ? length : length + 1);
    if (complete) return text;
  }
  // The text grew between the two calls. Its beginning is still valid.
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

}  // namespace verbena::inline VERBENA_ABI::detail
