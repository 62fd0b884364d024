// SPDX-License-Identifier: MIT
// Reads GID tables: ibv_query_gid_table(3) and ibv_query_gid_ex(3), which rdma-core 32 introduced;
// with older libraries ibv_query_gid(3) and the files of the kernel.
#pragma once

#include <cstdint>
#include <span>

#include "src/verbs/diagnosis.hpp"
#include "verbena/sys/layouts.hpp"
#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Fills `out` from the tables of all ports. Returns the number of entries, or a negated errno.
[[nodiscard]] ssize_t read_gid_table(queried_device device, std::span<sys::gid_entry_layout> out);

/// Reads one entry. An empty entry is ENODATA.
[[nodiscard]] verb_status read_gid(queried_device device, std::uint32_t port, std::uint32_t index,
                                   sys::gid_entry_layout& out);

}  // namespace verbena::inline VERBENA_ABI::detail
