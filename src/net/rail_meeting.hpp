// SPDX-License-Identifier: MIT
// The steps by which a rank connects its rails with all members of a group. Each rank has an
// acceptor, whose thread serves the connections of the others. So the order in which ranks connect
// to each other does not matter: no rank waits for a call of another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/net/connection_message.hpp"
#include "src/net/rail_contact.hpp"
#include "src/net/rail_events.hpp"
#include "src/net/rail_set.hpp"
#include "src/net/responder_thread.hpp"
#include "src/net/stream_acceptor.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/group_rails.hpp"
#include "verbena/net/multi_rail_channel.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Threads: as group_rails.
struct group_rails_state {
  std::shared_ptr<rail_events> events;
  std::unique_ptr<responder_thread> passive;
  std::vector<std::shared_ptr<rail_event_queue>> queues;  // by index in `ranks`
  std::vector<std::uint32_t> ranks;                       // the members
  std::vector<multi_rail_channel> channels;               // in the order of `ranks`
};

/// Threads: one thread at a time; serve() executes on the thread of the acceptor.
class rail_meeting {
 public:
  /// `ports` and `options` must outlive the object.
  rail_meeting(group& among, std::span<const rail_port> ports, deadline until,
               const group_rails_options& options);
  rail_meeting(const rail_meeting&) = delete;
  rail_meeting& operator=(const rail_meeting&) = delete;
  ~rail_meeting() = default;

  /// Errors: those of group_rails::connect().
  [[nodiscard]] result<std::unique_ptr<group_rails_state>> run();

 private:
  [[nodiscard]] result<void> start();
  [[nodiscard]] result<void> meet(const result<void>& started);
  [[nodiscard]] result<void> check_contacts() const;
  [[nodiscard]] result<void> connect_all();
  [[nodiscard]] result<std::unique_ptr<rail_set>> connect(std::size_t index, deadline limit);
  [[nodiscard]] result<void> confirm(const result<void>& connected);
  [[nodiscard]] steps<void> serve(bringup::stream peer, bool& is_silent);
  [[nodiscard]] result<std::size_t> check_opening(std::span<const std::byte> opening) const;

  group& among_;
  std::span<const rail_port> ports_;
  deadline until_;
  const group_rails_options& options_;
  connection_token token_ = {};
  std::vector<rail_contact> contacts_;  // by index in the members
  std::vector<bool> is_served_;         // by index; of the thread of the acceptor
  std::unique_ptr<group_rails_state> made_;
  std::optional<stream_acceptor> acceptor_;  // its thread uses the other members
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
