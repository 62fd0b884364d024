// SPDX-License-Identifier: MIT
// The two paths of an engine that reaches other hosts: between processes of this host, and over
// packets. For a connection, its address determines the path when it becomes ready to receive
// (queue_pair_attributes::path_to_peer). For a datagram, its own address determines the path
// (datagram_address::path). An engine that reaches only this host does not use this class.
#pragma once

#include <span>

#include "softdev/core/queue_pair.hpp"
#include "softdev/core/remote_path.hpp"
#include "softdev/core/route.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/shm/segment.hpp"

namespace verbena::softdev {

/// Threads: thread-safe, like the two paths.
class remote_paths final : public remote_path {
 public:
  /// All arguments must outlive the path.
  remote_paths(remote_path& same_host, remote_path& wire, public_segment& segment) noexcept
      : same_host_(same_host), wire_(wire), segment_(segment) {}

  response submit(queue_pair& sender, const message& what, std::span<const segment> local,
                  bool earlier_done) noexcept override {
    if (what.by == path_to_peer::wire && is_for_group(what))
      return submit_to_group(sender, what, local);
    remote_path& way = what.by == path_to_peer::wire ? wire_ : same_host_;
    return way.submit(sender, what, local, earlier_done);
  }
  void end_run(queue_pair& sender) noexcept override {
    if (rules_of(sender.transport()).connected) return path_of(sender).end_run(sender);
    // The datagrams of one run may have used both paths.
    same_host_.end_run(sender);
    wire_.end_run(sender);
  }
  void disown_payloads(queue_pair& sender) noexcept override {
    path_of(sender).disown_payloads(sender);
  }
  void prepare(queue_pair& which, const queue_pair_attributes& next) override {
    if (next.path_to_peer != path_to_peer::wire) return same_host_.prepare(which, next);
    wire_.prepare(which, next);
    // Processes of this host do not send to it.
    segment_.withdraw_queue_pair(which.number());
  }
  void before_reset(queue_pair& which) noexcept override { path_of(which).before_reset(which); }
  void changed(queue_pair& which, bool gone) noexcept override {
    // Also if the connection of the queue pair was prepared but not made.
    const bool ends = gone || which.state() == queue_pair_state::reset;
    if (ends || is_by_wire(which)) wire_.changed(which, gone);
    if (!is_by_wire(which)) same_host_.changed(which, gone);
  }
  void fence() noexcept override { same_host_.fence(); }

 private:
  /// Sends first to the members on this host: if the path to one of them has no room, the datagram
  /// is submitted again. If there is no room for the packet, the packet is lost.
  response submit_to_group(queue_pair& sender, const message& what,
                           std::span<const segment> local) noexcept {
    const response here = same_host_.submit(sender, what, local, false);
    if (here.outcome == verdict::blocked || here.outcome == verdict::local_protection_error)
      return here;
    const response sent = wire_.submit(sender, what, local, false);
    return sent.outcome == verdict::blocked ? here : sent;
  }
  [[nodiscard]] static bool is_by_wire(const queue_pair& which) noexcept {
    return which.path().packets() != nullptr;
  }
  [[nodiscard]] remote_path& path_of(const queue_pair& which) noexcept {
    return is_by_wire(which) ? wire_ : same_host_;
  }

  remote_path& same_host_;
  remote_path& wire_;
  public_segment& segment_;
};

}  // namespace verbena::softdev
