// SPDX-License-Identifier: MIT
// The state of a new protection domain.
#pragma once

#include <memory>

#include "verbena/verbs/detail/states.hpp"
#include "verbena/verbs/ownership.hpp"

namespace verbena::inline VERBENA_ABI::detail {

[[nodiscard]] std::shared_ptr<protection_domain_state> make_protection_domain_state(
    ibv_pd* native, const std::shared_ptr<context_state>& of, ownership owner);

}  // namespace verbena::inline VERBENA_ABI::detail
