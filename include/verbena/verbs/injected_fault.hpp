// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "verbena/base/ids.hpp"
#include "verbena/verbs/completion_status.hpp"
#include "verbena/verbs/request_selection.hpp"

namespace verbena::inline VERBENA_ABI {

/// The faults that inject_faults() injects.
enum class fault_kind : std::uint8_t {
  failure,                   ///< requests complete with `status` and are not sent
  lost_acknowledgement,      ///< requests are executed and complete with `retries_exceeded`
  receiver_not_ready,        ///< the first `times` attempts of requests find no receive
  delay,                     ///< requests complete `duration` after their start, or later
  revoked_access,            ///< the memory region `key` or `index` no longer permits remote access
  completion_queue_overrun,  ///< the next completion of completion queue `index` is lost
  peer_exit,                 ///< the process `pid`, or every peer process, counts as exited
  port_down,                 ///< the port neither sends nor receives
  port_up,                   ///< ends `port_down`
  gid_change,                ///< the addresses of the host are read again
  gid_move,                  ///< every address moves to the next GID index
};

/// A fault or event that the software device injects. Threads: immutable value.
///
/// A fault uses the members that the comment of its fault_kind names, and ignores the others.
struct injected_fault {
  fault_kind kind = fault_kind::failure;  ///< the fault
  /// The time since the previous fault; at most a day.
  std::chrono::microseconds after{};
  /// The fault happens before a request of this selection is sent. Later requests wait too.
  std::optional<request_selection> before{};

  /// The requests that `failure`, `lost_acknowledgement`, `receiver_not_ready` and `delay` affect.
  request_selection requests{};
  completion_status status = completion_status::retries_exceeded;  ///< for `failure`
  unsigned times = 1;                    ///< attempts that `receiver_not_ready` fails, from 1
  std::chrono::microseconds duration{};  ///< for `delay`; at most a day

  /// The remote key of the region of `revoked_access`.
  std::optional<remote_key> key{};
  /// The n-th region or completion queue that the process created, from 1.
  std::uint32_t index = 0;
  std::optional<pid_t> pid{};  ///< process of `peer_exit`; by default every peer process
};

}  // namespace verbena::inline VERBENA_ABI
