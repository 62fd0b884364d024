// SPDX-License-Identifier: MIT
// Carries the bytes of a negotiation over a stream.
#include "verbena/bringup/connect_queue_pair.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "src/base/call_or_else.hpp"
#include "src/base/earliest.hpp"
#include "src/bringup/peer_errors.hpp"
#include "src/bringup/run_negotiation.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

// Polls before the thread sleeps: a probe message completes within microseconds on an idle host.
constexpr int polls_before_sleep = 200;
constexpr int polls_of_a_step = 20;

deadline earliest(deadline one, std::optional<deadline::clock::time_point> other) {
  return other ? verbena::detail::earliest(one, deadline::at(*other)) : one;
}

/// Returns whether the peer has closed its end and all its bytes were read.
bool has_ended(const stream& peer) noexcept {
  std::byte next{};
  return ::recv(peer.fd(), &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace

error give_up(error why, stream& peer) noexcept {
  verbena::detail::call_or_else([&] { peer.refuse(why.message()); },
                                [&] { peer.refuse("no memory for the reason"); });
  return why;
}

/// Transfers the bytes in both directions. If the peer gives up, it sends the reason and closes its
/// end. This side reads the reason even if it can no longer send.
class carrier {
 public:
  carrier(negotiation_core& core, stream& peer, deadline until)
      : core_(core), peer_(peer), until_(until) {}

  steps<void> run() {
    VERBENA_CO_TRY_VOID(peer_.check_usable("connect_queue_pair", 0));
    stream::in_use used(peer_, true);
    while (true) {
      const bool was_probing = core_.is_probing();
      core_.advance(deadline::clock::now());
      if (core_.status() == negotiation_status::failed) {
        // A probe also fails if the peer has closed its end.
        if (was_probing && has_ended(peer_)) co_return closed_by(peer_.peer());
        co_return give_up_with_reason(used);
      }
      VERBENA_CO_TRY_VOID(send());
      const auto status = core_.status();
      if (status == negotiation_status::waiting_for_receives ||
          (status == negotiation_status::finished && core_.outgoing().empty())) {
        used.end();
        co_return {};
      }
      if (core_.is_probing() && ++polls_ < polls_before_sleep) {
        if (polls_ % polls_of_a_step == 0)
          VERBENA_CO_TRY_DISCARD(co_await verbena::detail::expiry(deadline::after({})));
        continue;
      }
      const int wanted =
          (core_.bytes_wanted() != 0 ? POLLIN : 0) | (core_.outgoing().empty() ? 0 : POLLOUT);
      VERBENA_CO_TRY(const bool ready,
                     co_await verbena::detail::ready(peer_.fd(), wanted,
                                                     earliest(until_, core_.next_advance())));
      VERBENA_CO_TRY_VOID(proceed(ready));
    }
  }

 private:
  result<void> send() {
    auto left = core_.outgoing();
    if (left.empty()) return {};
    if (send_failure_) return *std::move(send_failure_);
    const auto count = left.size();
    if (auto sent = peer_.write_some(left); !sent.has_value()) {
      send_failure_ = std::move(sent).error();
      left = {};
    }
    core_.sent(count - left.size());
    return {};
  }

  result<void> proceed(bool is_ready) {
    if (!is_ready) {
      if (until_.expired()) core_.time_out();
      return {};
    }
    if (core_.bytes_wanted() != 0) return receive();
    if (core_.outgoing().empty()) core_.peer_closed();  // poll(2) can only report a hang-up
    return {};
  }

  result<void> receive() {
    std::array<std::byte, 1024> bytes;
    const auto room = std::span(bytes).first(std::min(bytes.size(), core_.bytes_wanted()));
    std::size_t count = 0;
    VERBENA_TRY_VOID(peer_.read_some(room, count));
    core_.received(room.first(count));
    return {};
  }

  error give_up_with_reason(stream::in_use& used) {
    used.end();
    peer_.end_with(core_.outgoing());
    return core_.failure();
  }

  negotiation_core& core_;
  stream& peer_;
  deadline until_;
  std::optional<error> send_failure_;
  int polls_ = 0;
};

steps<void> run(negotiation_core& core, stream& peer, deadline until) {
  carrier between(core, peer, until);
  co_return co_await between.run();
}

steps<void> run(negotiation_base& of, stream& peer, deadline until) {
  return run(of.core(), peer, until);
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
