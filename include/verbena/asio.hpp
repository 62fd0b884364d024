// SPDX-License-Identifier: MIT
// Operations of channels and connections with completion tokens of Asio. Needs Asio 1.22 or newer.
#pragma once

#include "verbena/asio/channel.hpp"
#include "verbena/asio/engine.hpp"
#include "verbena/asio/message_channel.hpp"
#include "verbena/asio/message_listener.hpp"
