// SPDX-License-Identifier: MIT
// State objects of protection domains and of objects that are created from them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "verbena/verbs/context.hpp"
#include "verbena/verbs/detail/states.hpp"
#include "verbena/verbs/ownership.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::detail {

[[nodiscard]] std::shared_ptr<protection_domain_state> make_protection_domain_state(
    ibv_pd* native, const std::shared_ptr<context_state>& of, ownership owner);

/// Makes the handle of an object whose only parent is `pd`. Messages name the object
/// `WHAT of DEVICE`.
template <class Handle, class State>
[[nodiscard]] Handle make_child(typename State::native_type* native, const protection_domain& pd,
                                ownership owner, std::string_view what) {
  return internals::make<Handle>(std::make_shared<State>(typename State::arguments{
      .provider = &pd.provider(),
      .native = native,
      .owner = owner,
      .name = std::string(what).append(" of ").append(pd.context().name()),
      .parents = {.pd = internals::state_of(pd)}}));
}

}  // namespace verbena::inline VERBENA_ABI::detail
