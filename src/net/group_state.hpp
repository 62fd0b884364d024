// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/net/etcd.hpp"
#include "src/net/peer_connector.hpp"
#include "src/net/rank_board.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/net/group.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The parts of a group. Threads: one thread at a time.
struct group_state {
  std::optional<store> own_store;
  verbena::detail::sole_owner<announcement> announced;  // announcement of own_store
  rank_board board;  // declared before the channels, which may access it until they are destroyed
  std::shared_ptr<peer_connector> connector;  // nullptr: the channels were connected by join()
  multi_channel channels;
  std::vector<std::uint32_t> members;
  store_client client;
  std::uint32_t epoch = 0;  // incremented when the members change
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
