// SPDX-License-Identifier: MIT
// The real libibverbs behind a forwarder.
#pragma once

#include "softdev/forward/slots.hpp"

namespace verbena::forward {

/// The real library's functions by slot; all nullptr when there is no such library. Looked up at
/// the first call, which blocks and allocates; thread-safe.
[[nodiscard]] const function_table& real_table() noexcept;

/// The real library's `name` in `version` (nullptr: its newest), or nullptr. Thread-safe.
[[nodiscard]] plain_function real_function(const char* name, const char* version) noexcept;

/// A handle of the real library for dlsym; nullptr when there is none. Each forwarder has its own
/// way of finding it: real_next.cpp and real_search.cpp. Called once.
[[nodiscard]] void* find_real_library() noexcept;

/// The same for libefa, which the forwarders of its functions call once.
[[nodiscard]] void* find_real_efa() noexcept;

/// The same for librdmacm.
[[nodiscard]] void* find_real_rdmacm() noexcept;

}  // namespace verbena::forward
