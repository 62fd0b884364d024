// SPDX-License-Identifier: MIT
// The objects of the C++ cases, in the order of the structure of the C cases.
#pragma once

#include <array>

#include "bench/overhead/cases.h"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

struct overhead_objects {
  verbena::queue_pair<verbena::rc> qp;
  verbena::queue_pair<verbena::rc> qp_with_extended;
  verbena::extended_queue<verbena::rc> extended;
  verbena::completion_queue cq;
  verbena::extended_completion_queue lazy_cq;
  verbena::memory_region region;
  std::array<verbena::local_slice, overhead_slots> local;
  std::array<verbena::remote_region, overhead_slots> remote;
  verbena::queue_pair<verbena::ud> datagrams;
  verbena::extended_queue<verbena::ud> datagrams_extended;
  verbena::shared_receive_queue shared;
  verbena::address_handle way;
  verbena::destination to;
  std::array<verbena::local_slice, overhead_slots> words;  // the first eight bytes of each slot
  std::array<verbena::inline_data, overhead_slots> inlined;
};

[[gnu::always_inline]] inline std::uint64_t outcome_of(verbena::post_status status) {
  if (!status) [[unlikely]]
    return overhead_failed(status.code());
  return 0;
}
