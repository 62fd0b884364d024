// SPDX-License-Identifier: MIT
// Functions of the C interface that verbs.h does not declare.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "verbena/base/soft_entry.hpp"

extern "C" {

/// A private function of rdma-core that ibv_devinfo calls. Sets `type` to 0 for RoCE v1 or
/// InfiniBand, to 1 for RoCE v2. Returns 0, or -1 with errno.
int ibv_query_gid_type(struct ibv_context* context, std::uint8_t port_num, unsigned int index,
                       int* type);

struct ibv_device* verbena_soft_device(void);
void* verbena_soft_allocate(std::size_t bytes, int huge_pages);
int verbena_soft_free(void* memory);
std::size_t verbena_soft_explain(std::uint32_t qp_num, std::uint64_t wr_id,
                                 std::uint32_t vendor_err, char* text, std::size_t capacity);

int verbena_soft_inject_event(struct ibv_context* context, const char* commands);
int verbena_soft_reaches_hosts(struct ibv_context* context, std::uint8_t port_num, int gid_index);
std::size_t verbena_soft_check_commands(const char* commands, char* text, std::size_t capacity);

const struct verbena_soft_functions* verbena_soft_entry(std::uint32_t abi);
}
