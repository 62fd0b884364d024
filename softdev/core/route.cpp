// SPDX-License-Identifier: MIT
#include "softdev/core/route.hpp"

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/same_process.hpp"
#include "softdev/core/transport/rules.hpp"

namespace verbena::softdev {

bool is_for_group(const message& what) noexcept {
  return what.destination_qpn == multicast_qpn && rules_of(what.transport).routed &&
         what.by != path_to_peer::none;
}

route find_route(const queue_pair& sender, const message& what) noexcept {
  engine& home = sender.home();
  if (!home.port().up(sender.attributes().port)) return {.why = reason::port_down};
  if (what.by != path_to_peer::same_host) {
    remote_path* const remote = what.by == path_to_peer::wire ? home.remote() : nullptr;
    return {.away = remote, .why = remote == nullptr ? reason::peer_unreachable : reason::none};
  }
  if (is_for_group(what)) return {.away = home.remote()};
  if (home.routes().stay_here(what.destination_qpn)) {
    queue_pair* const target = home.find(what.destination_qpn);
    return {.here = target, .why = target == nullptr ? reason::peer_unknown : reason::none};
  }
  remote_path* const remote = home.remote();
  return {.away = remote, .why = remote == nullptr ? reason::peer_unreachable : reason::none};
}

response send_along(const route& way, queue_pair& sender, const message& what,
                    std::span<const segment> local, bool earlier_done) noexcept {
  if (way.here != nullptr) return execute_in_process(*way.here, what, local);
  if (way.away != nullptr) {
    sender.sender().note_path(*way.away);
    return way.away->submit(sender, what, local, earlier_done);
  }
  return without_answer(way.why, what);
}

}  // namespace verbena::softdev
