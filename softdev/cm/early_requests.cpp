// SPDX-License-Identifier: MIT
#include "softdev/cm/early_requests.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

#include "softdev/cm/mad_gateway.hpp"

namespace verbena::softdev::cm {
namespace {

constexpr std::chrono::milliseconds listener_interval{10};

}  // namespace

void early_requests::arrive(const address& own, const address& peer, const mad& request,
                            time_point now) {
  if (!carrier_->admit(own, peer, request)) return;
  const early_request made{own, peer, request, now + options_.listener_timeout};
  if (std::ranges::any_of(kept_, [&](const early_request& each) {
        return is(each, peer, request.kind, request.sender_id);
      }))
    return;
  const time_point reject_at = has_room_for(peer) ? made.reject_at : now;
  if (ends(made, reject_at, now)) return;
  try {
    kept_.push_back(made);
  } catch (const std::bad_alloc&) {
    return;  // the peer repeats its request
  }
  next_try_ = std::min<time_point>(next_try_, now + listener_interval);
}

void early_requests::give_up(const address& peer, const mad& rejection) noexcept {
  const auto forgotten = std::erase_if(kept_, [&](const early_request& each) {
    return is(each, peer, mad_kind::request, rejection.sender_id);
  });
  if (forgotten == 0) passed_.give_up(peer, rejection);
}

void early_requests::expire(time_point now) {
  if (now < next_try_) return;
  std::erase_if(kept_, [&](const early_request& each) { return ends(each, each.reject_at, now); });
  next_try_ = kept_.empty() ? time_point::max() : now + listener_interval;
}

// One host must not occupy all places.
bool early_requests::has_room_for(const address& peer) const noexcept {
  if (kept_.size() >= options_.max_early) return false;
  const auto of_peer = std::ranges::count_if(
      kept_, [&](const early_request& each) { return same_host(each.peer, peer); });
  return static_cast<std::size_t>(of_peer) < options_.max_early_of_host;
}

bool early_requests::is(const early_request& which, const address& peer, mad_kind kind,
                        std::uint32_t communication_id) noexcept {
  return which.request.kind == kind && which.request.sender_id == communication_id &&
         same_host(which.peer, peer);
}

// Passes on a request. From `reject_at` on, rejects it if no process listens; after another
// failure, the peer repeats it. Returns false if it has to be kept.
bool early_requests::ends(const early_request& which, time_point reject_at,
                          time_point now) noexcept {
  const int refused = passed_.pass(which.own, which.peer, which.request);
  if (refused == 0) return true;
  if (now < reject_at) return false;
  if (refused == ECONNREFUSED)
    reject_request(*carrier_, which.own, which.peer, which.request, reject_reason::no_listener);
  return true;
}

}  // namespace verbena::softdev::cm
