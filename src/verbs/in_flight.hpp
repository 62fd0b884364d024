// SPDX-License-Identifier: MIT
// Registers new objects with module check in checked builds.
#pragma once

#include <infiniband/verbs.h>

#include <optional>
#include <string>

#include "verbena/base/call_site.hpp"
#include "verbena/base/config.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::inline VERBENA_ABI::detail {

#ifdef VERBENA_CHECKED
void watch(ibv_qp* queue, const std::string& name, std::optional<bool> all_signaled);
void watch(ibv_srq* queue, const std::string& name);
/// Registers a memory region. `memory` is nullptr if this process does not map the memory.
/// `registered` is the call in the program that registered it, if it is known.
void watch(const memory_region& region, const void* memory, std::optional<call_site> registered);
/// Records a transition: RESET discards the outstanding work requests, ERR flushes them.
void watch_state(const ibv_qp* queue, ibv_qp_state state) noexcept;
#else
inline void watch(ibv_qp*, const std::string&, std::optional<bool>) noexcept {}
inline void watch(ibv_srq*, const std::string&) noexcept {}
inline void watch(const memory_region&, const void*, std::optional<call_site>) noexcept {}
inline void watch_state(const ibv_qp*, ibv_qp_state) noexcept {}
#endif

}  // namespace verbena::inline VERBENA_ABI::detail
