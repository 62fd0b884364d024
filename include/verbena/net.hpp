// SPDX-License-Identifier: MIT
// Groups of ranks.
#pragma once

#include "verbena/net/barrier_algorithm.hpp"
#include "verbena/net/connect_mode.hpp"
#include "verbena/net/group.hpp"
#include "verbena/net/group_rails.hpp"
#include "verbena/net/membership.hpp"
#include "verbena/net/multi_channel.hpp"
#include "verbena/net/multi_rail_channel.hpp"
#include "verbena/net/multi_scope.hpp"
#include "verbena/net/network.hpp"
#include "verbena/net/peer_operations.hpp"
#include "verbena/net/pending_operations.hpp"
#include "verbena/net/queue_pair_budget.hpp"
#include "verbena/net/rail.hpp"
#include "verbena/net/rail_memory.hpp"
#include "verbena/net/rail_responder.hpp"
#include "verbena/net/reduction.hpp"
#include "verbena/net/store.hpp"
#include "verbena/net/store_client.hpp"
