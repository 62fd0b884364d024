// SPDX-License-Identifier: MIT
#include "softdev/core/transport/make_requester.hpp"

#include <new>

#include "softdev/core/queue_pair.hpp"
#include "softdev/core/transport/rc_requester.hpp"
#include "softdev/core/transport/srd_requester.hpp"
#include "softdev/core/transport/unreliable_requester.hpp"

namespace verbena::softdev {

std::size_t requester_bytes(transport kind) noexcept {
  switch (kind) {
    case transport::rc:
      return sizeof(rc_requester);
    case transport::srd:
      return sizeof(srd_requester);
    case transport::uc:
    case transport::ud:
      break;
  }
  return sizeof(unreliable_requester);
}

requester* make_requester(queue_pair& self, const queue_pair_options& options, std::byte* room,
                          std::byte* queue) {
  switch (options.transport) {
    case transport::rc:
      return new (room) rc_requester(self, options, queue);
    case transport::srd:
      return new (room) srd_requester(self, options, queue);
    case transport::uc:
    case transport::ud:
      break;
  }
  return new (room) unreliable_requester(self, options, queue);
}

}  // namespace verbena::softdev
