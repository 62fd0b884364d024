// SPDX-License-Identifier: MIT
// The environment of a receiver that has a stop token.
#pragma once

#include "verbena/async/execution.hpp"

namespace verbena::test {

template <class Token>
struct token_env {
  Token token;
  [[nodiscard]] Token query(async::execution::get_stop_token_t /*which*/) const noexcept {
    return token;
  }
};

}  // namespace verbena::test
