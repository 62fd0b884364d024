// SPDX-License-Identifier: MIT
// Carries the bytes of a negotiation over a stream.
#include "verbena/bringup/connect_queue_pair.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "src/bringup/run_negotiation.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

// A probe message completes within microseconds on an idle host: look that often before sleeping.
constexpr int polls_before_sleep = 200;

deadline earlier(deadline one, std::optional<deadline::clock::time_point> other) {
  return other && *other < one.when() ? deadline::at(*other) : one;
}

}  // namespace

error give_up(error why, stream& peer) noexcept {
  peer.refuse(why.message());
  return why;
}

/// The bytes in both directions. A peer that gives up closes its end: its reason is read even if
/// this side can no longer send.
class carrier {
 public:
  carrier(negotiation_core& steps, stream& peer, deadline until)
      : steps_(steps), peer_(peer), until_(until) {}

  result<void> run() {
    VERBENA_TRY_VOID(peer_.check_usable("connect_queue_pair", 0));
    while (true) {
      steps_.advance(deadline::clock::now());
      if (steps_.status() == negotiation_status::failed) return give_up_with_reason();
      VERBENA_TRY_VOID(send());
      const auto status = steps_.status();
      if (status == negotiation_status::waiting_for_receives) return {};
      if (status == negotiation_status::finished && steps_.outgoing().empty()) return {};
      if (steps_.is_probing() && ++polls_ < polls_before_sleep) continue;
      VERBENA_TRY_VOID(wait());
    }
  }

 private:
  result<void> send() {
    auto left = steps_.outgoing();
    if (left.empty()) return {};
    if (send_failure_) return *std::move(send_failure_);
    const auto count = left.size();
    if (auto sent = peer_.write_some(left); !sent) {
      send_failure_ = std::move(sent).error();
      left = {};
    }
    steps_.sent(count - left.size());
    return {};
  }

  result<void> wait() {
    const int wanted =
        (steps_.bytes_wanted() != 0 ? POLLIN : 0) | (steps_.outgoing().empty() ? 0 : POLLOUT);
    VERBENA_TRY(const bool ready, wait_for_fd(peer_.fd(), static_cast<short>(wanted),
                                              earlier(until_, steps_.next_advance())));
    if (!ready) {
      if (until_.expired()) steps_.time_out();
      return {};
    }
    if (steps_.bytes_wanted() != 0) return receive();
    if (steps_.outgoing().empty()) steps_.peer_closed();  // only a hang-up is reported then
    return {};
  }

  result<void> receive() {
    std::array<std::byte, 1024> bytes;
    const auto room = std::span(bytes).first(std::min(bytes.size(), steps_.bytes_wanted()));
    std::size_t count = 0;
    VERBENA_TRY_VOID(peer_.read_some(room, count));
    steps_.received(room.first(count));
    return {};
  }

  error give_up_with_reason() {
    peer_.end_with(steps_.outgoing());
    return steps_.failure();
  }

  negotiation_core& steps_;
  stream& peer_;
  deadline until_;
  std::optional<error> send_failure_;
  int polls_ = 0;
};

result<void> run(negotiation_core& steps, stream& peer, deadline until) {
  return carrier(steps, peer, until).run();
}

result<void> run(negotiation_base& steps, stream& peer, deadline until) {
  return run(steps.core(), peer, until);
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
