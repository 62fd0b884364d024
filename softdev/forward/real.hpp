// SPDX-License-Identifier: MIT
// The real libibverbs behind a forwarder.
#pragma once

#include "softdev/forward/slots.hpp"

namespace verbena::forward {

/// Returns the functions of the real library by slot; all are nullptr if there is no such library.
/// The first call looks them up, blocks and allocates. Thread-safe.
[[nodiscard]] const function_table& real_table() noexcept;

/// Returns the function `name` of the real library in `version` (nullptr: the newest), or nullptr.
/// Thread-safe.
[[nodiscard]] plain_function real_function(const char* name, const char* version) noexcept;

/// Returns a handle of the real library for dlsym, or nullptr if the search fails. Forwarders
/// differ in the search: real_next.cpp and real_search.cpp. Called once.
[[nodiscard]] void* find_real_library() noexcept;

/// Returns a handle of the real libefa. The forwarders of its functions call this once.
[[nodiscard]] void* find_real_efa() noexcept;

/// Returns a handle of the real librdmacm.
[[nodiscard]] void* find_real_rdmacm() noexcept;

}  // namespace verbena::forward
