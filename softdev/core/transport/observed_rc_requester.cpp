// SPDX-License-Identifier: MIT
#include "softdev/core/transport/observed_rc_requester.hpp"

#include <array>

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"

namespace verbena::softdev {

bool observed_rc_requester::answer(const request_id& which, const response& what) noexcept {
  std::uint64_t index = 0;
  if (const send_entry* const entry = in_flight(which, index); entry != nullptr) {
    std::array<segment, limits::max_sges> sinks;
    std::size_t count = 0;
    failure ignored;
    if (entry->request.opcode == opcode::rdma_read) count = window().gather(index, sinks, ignored);
    self().home().routes().observer()->answered(
        self(), {entry->request.opcode, entry->psn, {sinks.data(), count}}, what);
  }
  return rc_requester::answer(which, what);
}

}  // namespace verbena::softdev
