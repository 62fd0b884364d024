// SPDX-License-Identifier: MIT
// Peers that are processes: their main functions, pairing with them, and their end.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

#include "softdev/peers/link.hpp"
#include "tests/unit/softdev/peers/link_pair.hpp"

namespace verbena::softdev::testing {

/// Runs in a child: opens a link, sends its slot, and serves the link until the stop message.
template <class Handler>
int run_peer(int to_parent, Handler&& handler) {
  const auto own = open_link();
  send_value(to_parent, own->slot());
  for (;;) {
    own->service(clock::now());
    own->receive([&](peer& from, const ring_record& r) { return handler(*own, from, r); }, 64);
  }
}

inline int echo_peer(int to_parent) {
  return run_peer(to_parent, [](link&, peer& from, const ring_record& record) {
    const auto size = static_cast<std::uint32_t>(record.payload.size());
    const auto lock = from.lock_sends();
    const auto reserved = from.try_reserve(record.type, size);
    if (reserved.status != ring_status::ok) return handled::keep;
    if (size != 0) std::memcpy(reserved.payload.data(), record.payload.data(), size);
    from.commit();
    from.announce();
    return handled::consumed;
  });
}

inline std::shared_ptr<peer> pair_with(link& own, std::uint32_t slot) {
  auto other = own.connect(slot);
  EXPECT_TRUE(drive({&own}, [&] { return other->state() != peer_state::connecting; }));
  EXPECT_EQ(other->state(), peer_state::paired) << describe(other->end());
  return other;
}

inline bool becomes_dead(link& own, const peer& other) {
  return drive({&own}, [&] {
    own.receive(take_all, 64);
    return other.state() == peer_state::dead;
  });
}

}  // namespace verbena::softdev::testing
