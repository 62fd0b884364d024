// SPDX-License-Identifier: MIT
#include "softdev/core/transport/make_requester.hpp"

#include <new>

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/transport/observed_rc_requester.hpp"
#include "softdev/core/transport/rc_requester.hpp"
#include "softdev/core/transport/srd_requester.hpp"
#include "softdev/core/transport/unreliable_requester.hpp"

namespace verbena::softdev {

std::size_t requester_bytes(transport kind) noexcept {
  switch (kind) {
    case transport::rc:
      static_assert(sizeof(observed_rc_requester) == sizeof(rc_requester));
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
      if (self.home().routes().observer() != nullptr)
        return new (room) observed_rc_requester(self, options, queue);
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
