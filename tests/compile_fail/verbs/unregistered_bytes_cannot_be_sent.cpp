// SPDX-License-Identifier: MIT
// Unregistered memory can be sent only as inline data, and the call must say so.
// expect-gcc: no matching function for call to .*send
// expect-clang: no matching member function for call to 'send'
#include <array>
#include <cstddef>
#include <span>

#include "verbena/verbs/send_batch.hpp"

void use(verbena::send_batch<verbena::rc>& batch) {
  const std::array<std::byte, 8> note{};
#ifdef VERBENA_BAD
  batch.send({}, std::span<const std::byte>(note));
#else
  batch.send({}, verbena::inline_data(note));
#endif
}
