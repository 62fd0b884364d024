// SPDX-License-Identifier: MIT
// Objects that module check is told of when they are made; only checked builds do that.
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
/// Of memory at `memory`, nullptr when this process does not see it; `registered` is where the
/// program did that, if that is known.
void watch(const memory_region& region, const void* memory, std::optional<call_site> registered);
/// The device is told to forget or to fail what a queue pair has.
void watch_state(const ibv_qp* queue, ibv_qp_state state) noexcept;
#else
inline void watch(ibv_qp*, const std::string&, std::optional<bool>) noexcept {}
inline void watch(ibv_srq*, const std::string&) noexcept {}
inline void watch(const memory_region&, const void*, std::optional<call_site>) noexcept {}
inline void watch_state(const ibv_qp*, ibv_qp_state) noexcept {}
#endif

}  // namespace verbena::inline VERBENA_ABI::detail
