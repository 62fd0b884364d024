// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "verbena/base/config.hpp"
#include "verbena/base/detail/lasting.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

using lasting_sinks = verbena::detail::lasting<std::span<const sink>>;
using lasting_outgoing = verbena::detail::lasting<outgoing>;  ///< sources or inline data

}  // namespace verbena::inline VERBENA_ABI::async::detail
