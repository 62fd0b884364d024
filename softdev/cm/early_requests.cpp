// SPDX-License-Identifier: MIT
#include "softdev/cm/early_requests.hpp"

#include <algorithm>
#include <new>

namespace verbena::softdev::cm {
namespace {

constexpr std::chrono::milliseconds listener_interval{5};

}  // namespace

void early_requests::arrive(const address& own, const address& peer, const mad& request,
                            time_point now) {
  const auto then = kept_.size() < options_.max_early ? no_listener::keep : no_listener::reject;
  if (carrier_->request_arrived(own, peer, request, then)) return;
  try {
    kept_.push_back({own, peer, request, now + options_.listener_timeout});
  } catch (const std::bad_alloc&) {
    return;  // the peer repeats its request
  }
  next_try_ = std::min<time_point>(next_try_, now + listener_interval);
}

void early_requests::expire(time_point now) {
  if (now < next_try_) return;
  std::erase_if(kept_, [&](const early_request& each) {
    const auto then = now >= each.reject_at ? no_listener::reject : no_listener::keep;
    return carrier_->request_arrived(each.own, each.peer, each.request, then);
  });
  next_try_ = kept_.empty() ? time_point::max() : now + listener_interval;
}

time_point early_requests::next_deadline() const noexcept { return next_try_; }

}  // namespace verbena::softdev::cm
