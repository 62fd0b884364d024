// SPDX-License-Identifier: MIT
#include "src/base/completion_text.hpp"

#include <array>
#include <cstddef>

namespace verbena::inline VERBENA_ABI::detail {
namespace {

// Indexed by ibv_wc_status. Meanings: ibv_poll_cq(3) and InfiniBand Architecture Specification
// 10.10.
constexpr std::array<completion_text, 24> texts = {{
    {"SUCCESS", "success"},
    {"LOC_LEN_ERR", "local length error"},
    {"LOC_QP_OP_ERR", "local queue pair operation error"},
    {"LOC_EEC_OP_ERR", "local EE context operation error"},
    {"LOC_PROT_ERR", "local protection error"},
    {"WR_FLUSH_ERR", "flushed"},
    {"MW_BIND_ERR", "memory window bind error"},
    {"BAD_RESP_ERR", "unexpected response"},
    {"LOC_ACCESS_ERR", "local access error"},
    {"REM_INV_REQ_ERR", "remote invalid request"},
    {"REM_ACCESS_ERR", "remote access error"},
    {"REM_OP_ERR", "remote operation error"},
    {"RETRY_EXC_ERR", "retries exceeded"},
    {"RNR_RETRY_EXC_ERR", "receiver-not-ready retries exceeded"},
    {"LOC_RDD_VIOL_ERR", "local RDD violation"},
    {"REM_INV_RD_REQ_ERR", "remote invalid RD request"},
    {"REM_ABORT_ERR", "remote aborted"},
    {"INV_EECN_ERR", "invalid EE context number"},
    {"INV_EEC_STATE_ERR", "invalid EE context state"},
    {"FATAL_ERR", "fatal transport error"},
    {"RESP_TIMEOUT_ERR", "response timeout"},
    {"GENERAL_ERR", "general error"},
    {"TM_ERR", "tag matching error"},
    {"TM_RNDV_INCOMPLETE", "tag matching rendezvous incomplete"},
}};

}  // namespace

const completion_text* find_completion_text(std::uint32_t status) noexcept {
  return status < texts.size() ? &texts[status] : nullptr;
}

}  // namespace verbena::inline VERBENA_ABI::detail
