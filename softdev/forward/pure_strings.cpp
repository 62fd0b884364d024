// SPDX-License-Identifier: MIT
// The texts of libibverbs, unchanged: programs print them, and users search for them.
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>

namespace {

template <std::size_t Count>
const char* text_of(const std::array<const char*, Count>& texts, int value) noexcept {
  const bool known = value >= 0 && static_cast<std::size_t>(value) < Count;
  return known ? texts[static_cast<std::size_t>(value)] : "unknown";
}

// By ibv_event_type.
constexpr std::array events{
    "CQ error",
    "local work queue catastrophic error",
    "invalid request local work queue error",
    "local access violation work queue error",
    "communication established",
    "send queue drained",
    "path migrated",
    "path migration request error",
    "local catastrophic error",
    "port active",
    "port error",
    "LID change",
    "P_Key change",
    "SM change",
    "SRQ catastrophic error",
    "SRQ limit reached",
    "last WQE reached",
    "client reregistration",
    "GID table change",
    "WQ fatal",
};

// By ibv_node_type, which begins with 1.
constexpr std::array nodes{
    "unknown",           "InfiniBand channel adapter",
    "InfiniBand switch", "InfiniBand router",
    "iWARP NIC",         "usNIC",
    "usNIC UDP",         "unspecified",
};

// By ibv_port_state.
constexpr std::array port_states{
    "no state change (NOP)", "down", "init", "armed", "active", "active defer",
};

// By ibv_wc_status.
constexpr std::array statuses{
    "success",
    "local length error",
    "local QP operation error",
    "local EE context operation error",
    "local protection error",
    "Work Request Flushed Error",
    "memory management operation error",
    "bad response error",
    "local access error",
    "remote invalid request error",
    "remote access error",
    "remote operation error",
    "transport retry counter exceeded",
    "RNR retry counter exceeded",
    "local RDD violation error",
    "remote invalid RD request",
    "aborted error",
    "invalid EE context number",
    "invalid EE context state",
    "fatal error",
    "response timeout error",
    "general error",
    "TM error",
    "TM software rendezvous",
};

}  // namespace

extern "C" {
__attribute__((visibility("default"))) const char* ibv_event_type_str(ibv_event_type event) {
  return text_of(events, event);
}
__attribute__((visibility("default"))) const char* ibv_node_type_str(ibv_node_type node_type) {
  return text_of(nodes, node_type);
}
__attribute__((visibility("default"))) const char* ibv_port_state_str(ibv_port_state port_state) {
  return text_of(port_states, port_state);
}
__attribute__((visibility("default"))) const char* ibv_wc_status_str(ibv_wc_status status) {
  return text_of(statuses, status);
}
}
