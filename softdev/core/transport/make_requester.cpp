// SPDX-License-Identifier: MIT
#include "softdev/core/transport/make_requester.hpp"

#include "softdev/core/queue_pair.hpp"
#include "softdev/core/transport/rc_requester.hpp"
#include "softdev/core/transport/srd_requester.hpp"
#include "softdev/core/transport/unreliable_requester.hpp"

namespace verbena::softdev {

std::unique_ptr<requester> make_requester(queue_pair& self, const queue_pair_options& options) {
  switch (options.transport) {
    case transport::rc:
      return std::make_unique<rc_requester>(self, options);
    case transport::srd:
      return std::make_unique<srd_requester>(self, options);
    case transport::uc:
    case transport::ud:
      break;
  }
  return std::make_unique<unreliable_requester>(self, options);
}

}  // namespace verbena::softdev
