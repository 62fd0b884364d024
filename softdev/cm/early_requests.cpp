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
  if (!carrier_->admit(own, peer, request) || is_kept(peer, request)) return;
  const int refused = pass_to_listener(own, peer, request);
  if (refused == 0) return;
  if (!has_room_for(peer)) {
    // After another failure, the peer repeats its request.
    if (refused == ECONNREFUSED)
      reject_request(*carrier_, own, peer, request, reject_reason::no_listener);
    return;
  }
  try {
    kept_.push_back({own, peer, request, now + options_.listener_timeout});
  } catch (const std::bad_alloc&) {
    return;  // the peer repeats its request
  }
  next_try_ = std::min<time_point>(next_try_, now + listener_interval);
}

void early_requests::cancel(const address& peer, std::uint32_t communication_id) noexcept {
  std::erase_if(kept_, [&](const early_request& each) {
    return each.request.kind == mad_kind::request && each.request.sender_id == communication_id &&
           same_host(each.peer, peer);
  });
}

void early_requests::expire(time_point now) {
  if (now < next_try_) return;
  std::erase_if(kept_, [&](const early_request& each) { return ends(each, now); });
  next_try_ = kept_.empty() ? time_point::max() : now + listener_interval;
}

// One host must not occupy all places.
bool early_requests::has_room_for(const address& peer) const noexcept {
  if (kept_.size() >= options_.max_early) return false;
  const auto of_peer = std::ranges::count_if(
      kept_, [&](const early_request& each) { return same_host(each.peer, peer); });
  return static_cast<std::size_t>(of_peer) < options_.max_early_of_host;
}

bool early_requests::is_kept(const address& peer, const mad& request) const noexcept {
  return std::ranges::any_of(kept_, [&](const early_request& each) {
    return each.request.kind == request.kind && each.request.sender_id == request.sender_id &&
           same_host(each.peer, peer);
  });
}

bool early_requests::ends(const early_request& which, time_point now) noexcept {
  const int refused = pass_to_listener(which.own, which.peer, which.request);
  if (refused == 0) return true;
  if (now < which.reject_at) return false;
  if (refused == ECONNREFUSED)
    reject_request(*carrier_, which.own, which.peer, which.request, reject_reason::no_listener);
  return true;
}

}  // namespace verbena::softdev::cm
