// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "verbena/base/flags.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI {

/// An operation of the extended interface.
/// Source: enum ibv_qp_create_send_ops_flags, ibv_create_qp_ex(3).
enum class send_operation : std::uint64_t {
  write = IBV_QP_EX_WITH_RDMA_WRITE,                          ///< write()
  write_with_immediate = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,  ///< write_with_immediate()
  send = IBV_QP_EX_WITH_SEND,                                 ///< send()
  send_with_immediate = IBV_QP_EX_WITH_SEND_WITH_IMM,         ///< send_with_immediate()
  read = IBV_QP_EX_WITH_RDMA_READ,                            ///< read()
  compare_and_swap = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,       ///< compare_and_swap()
  fetch_and_add = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,        ///< fetch_and_add()
};
template <>
inline constexpr bool enable_flags<send_operation> = true;
/// A set of operations.
using send_operations = flags<send_operation>;

/// The operations that `Transport` supports.
template <transport Transport>
inline constexpr send_operations operations_of =
    send_operations::from_mask(transport_traits<Transport>::send_operations);

/// Returns the names of verbs.h without `IBV_QP_EX_WITH_`: `SEND | RDMA_WRITE`. The empty set is
/// `none`.
[[nodiscard]] std::string to_string(send_operations operations);

}  // namespace verbena::inline VERBENA_ABI
