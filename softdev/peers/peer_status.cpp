// SPDX-License-Identifier: MIT
#include "softdev/peers/peer_status.hpp"

namespace verbena::softdev {

const char* describe(peer_end why) noexcept {
  switch (why) {
    case peer_end::none:
      return "it is alive";
    case peer_end::no_process:
      return "no process owns the slot";
    case peer_end::exited:
      return "the process exited or closed its device";
    case peer_end::other_user:
      return "the process belongs to another user, or the user namespace of this process does not "
             "map its user";
    case peer_end::other_version:
      return "the process uses another version of the software device";
    case peer_end::broken_protocol:
      return "the process wrote malformed data to shared memory or to its socket";
    case peer_end::out_of_resources:
      return "this process has no free descriptors or memory";
    case peer_end::too_many_links:
      return "the process has reached the limit of connections to this process, or its accesses to "
             "this process's memory timed out too often";
    case peer_end::access_timeout:
      return "an access of the process to this process's memory took too long; is the process "
             "stopped?";
    case peer_end::message_lost:
      return "this process had no memory for one of its messages";
  }
  return "unknown";
}

}  // namespace verbena::softdev
