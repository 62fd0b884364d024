// SPDX-License-Identifier: MIT
#include "verbena/verbs/send_operations.hpp"

#include <array>

#include "src/verbs/bit_names.hpp"

namespace verbena::inline VERBENA_ABI {

std::string to_string(send_operations operations) {
  static constexpr std::array<detail::named_bit, 12> names = {{
      {IBV_QP_EX_WITH_RDMA_WRITE, "RDMA_WRITE"},
      {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, "RDMA_WRITE_WITH_IMM"},
      {IBV_QP_EX_WITH_SEND, "SEND"},
      {IBV_QP_EX_WITH_SEND_WITH_IMM, "SEND_WITH_IMM"},
      {IBV_QP_EX_WITH_RDMA_READ, "RDMA_READ"},
      {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, "ATOMIC_CMP_AND_SWP"},
      {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, "ATOMIC_FETCH_AND_ADD"},
      {IBV_QP_EX_WITH_LOCAL_INV, "LOCAL_INV"},
      {IBV_QP_EX_WITH_BIND_MW, "BIND_MW"},
      {IBV_QP_EX_WITH_SEND_WITH_INV, "SEND_WITH_INV"},
      {IBV_QP_EX_WITH_TSO, "TSO"},
      {1U << 12, "ATOMIC_WRITE"},
  }};
  return detail::names_of_bits(operations.mask(), names);
}

}  // namespace verbena::inline VERBENA_ABI
