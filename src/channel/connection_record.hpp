// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>

#include "src/channel/connection_book.hpp"
#include "src/channel/released_queue.hpp"
#include "verbena/channel/channel_failure.hpp"
#include "verbena/channel/detail/first_use.hpp"
#include "verbena/verbs/gid_table.hpp"

namespace verbena::inline VERBENA_ABI::cm {
class connection;
}

namespace verbena::inline VERBENA_ABI::detail {

/// The state of a channel that is not used on the data path.
/// Threads: one thread at a time.
struct connection_record {
  std::shared_ptr<cm::connection> connection = {};  ///< nullptr without a connection manager
  connection_book book;  ///< the identities of the two sides and the last connection
  /// The entry of the GID table, if the options selected it by index.
  std::optional<gid_entry> chosen_gid = {};
  std::optional<channel_failure> failure = {};  ///< the reason why the connection ended
  bool has_undestroyed_queue = false;  ///< the device refused to destroy a queue pair that failed
  std::shared_ptr<first_use> connector = {};    ///< connects at the first operation, or nullptr
  std::uint32_t peer = 0;                       ///< number of the peer for `connector`
  std::optional<error> first_use_failure = {};  ///< error of the last attempt of `connector`
  released_queue released = {};  ///< from channel_core::release_for_connect() until take_back()
};

}  // namespace verbena::inline VERBENA_ABI::detail
