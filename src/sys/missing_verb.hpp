// SPDX-License-Identifier: MIT
// Verbs that the library of a provider may lack, because a later version of rdma-core has them.
#pragma once

#include <string>
#include <string_view>

#include "verbena/sys/provider.hpp"

namespace verbena::inline VERBENA_ABI::sys {

/// If the library of `from` lacks the function `verb`, returns a text that names both and the
/// version of rdma-core that is needed; otherwise returns an empty string.
[[nodiscard]] std::string explain_missing(const provider& from, std::string_view verb);

}  // namespace verbena::inline VERBENA_ABI::sys
