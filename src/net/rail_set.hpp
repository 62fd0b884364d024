// SPDX-License-Identifier: MIT
// The rails of a multi_rail_channel: which rail executes a piece, and what follows from a failure.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/net/active_rail.hpp"
#include "src/net/rail_events.hpp"
#include "src/net/rail_message.hpp"
#include "src/net/rail_transfer.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/multi_rail_channel.hpp"
#include "verbena/net/rail.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Threads: one thread at a time.
class rail_set {
 public:
  using clock = deadline::clock;

  /// The options of a connection, and the queue from which it takes the events of its contexts. If
  /// `events` is nullptr, the connection reads the events itself, as in `options`.
  struct setup {
    rail_options options = {};
    std::shared_ptr<rail_event_queue> events = {};
  };

  /// Connects the rails to the responder at the other end of a stream; see
  /// multi_rail_channel::connect().
  [[nodiscard]] static result<std::unique_ptr<rail_set>> connect(bringup::stream control,
                                                                 std::span<const rail_port> rails,
                                                                 deadline until, setup with);
  rail_set(rail_control control, std::vector<active_rail> rails, setup with)
      : control_(std::move(control)), rails_(std::move(rails)), with_(std::move(with)) {
    again_.reserve(rails_.size() * with_.options.pieces_in_flight);
  }

  [[nodiscard]] rail_result run(const char* call, const rail_transfer::parts& what, deadline until);
  /// Handles events and messages, and makes the changes of state that are due. `of`: the operation
  /// in progress.
  void tend(clock::time_point now, rail_transfer* of = nullptr);
  /// Handles an event of the context of a rail. `of`: as for tend().
  void take(std::uint32_t rail, const async_event& event, rail_transfer* of = nullptr);

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(rails_.size());
  }
  [[nodiscard]] const active_rail& operator[](std::uint32_t rail) const { return rails_[rail]; }
  [[nodiscard]] const error* failure() const noexcept { return control_.failure(); }
  /// Returns the states of all rails.
  [[nodiscard]] std::string describe() const;

 private:
  class operation_guard;

  /// Returns when at least one rail is active and none is being connected, or when `until` passes
  /// and a rail is active.
  [[nodiscard]] result<void> become_active(deadline until);
  [[nodiscard]] result<void> check(const char* call, const rail_transfer::parts& what) const;
  void read_events(rail_transfer* of);
  [[nodiscard]] active_rail* choose();
  void assign(rail_transfer& to);
  [[nodiscard]] bool poll(rail_transfer& of);
  [[nodiscard]] bool is_any(bool (active_rail::*of)() const noexcept) const;
  [[nodiscard]] bool are_fenced() const noexcept;
  void wait_for_peer(deadline until);
  void abandon(rail_transfer& what);
  [[nodiscard]] rail_result conclude(const char* call, const rail_transfer& what);

  rail_control control_;
  std::vector<active_rail> rails_;
  setup with_;
  std::vector<rail_event> arrived_;  // empty, except in read_events()
  std::vector<rail_piece> again_;    // of the operation in progress
  std::uint32_t turn_ = 0;           // the rail after the one that was used last
  clock::time_point next_tend_ = {};
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
