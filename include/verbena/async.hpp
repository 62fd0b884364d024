// SPDX-License-Identifier: MIT
// Coroutines that await operations, and senders.
#pragma once

#include "verbena/async/algorithms.hpp"
#include "verbena/async/channel.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/async/execution.hpp"
#include "verbena/async/message_channel.hpp"
#include "verbena/async/message_listener.hpp"
#include "verbena/async/scope.hpp"
#include "verbena/async/task.hpp"
