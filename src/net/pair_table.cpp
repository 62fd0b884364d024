// SPDX-License-Identifier: MIT
#include "src/net/pair_table.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

pair_claim::~pair_claim() {
  if (of_ == nullptr) return;
  const std::lock_guard lock(of_->mutex_);
  of_->pairs_[peer_].is_accepting = false;
  --of_->accepting_;
  of_->changed_.notify_all();
}

bool pair_claim::publish(made_pair made) {
  std::optional<made_pair> replaced;  // destroyed after the lock is released
  const std::lock_guard lock(of_->mutex_);
  auto& with = of_->pairs_[peer_];
  if (!of_->is_open_ || of_->epoch_ != epoch_ || !with.is_member || with.is_used) {
    replaced.emplace(std::move(made));
    return false;
  }
  published_ = made.ends.local;
  with.is_published = true;
  // The peer has closed, or never confirmed, the connection that is replaced.
  of_->counts_.closed += with.made && with.now.is_doubtful ? 1U : 0U;
  of_->counts_.requests_accepted += with.made && with.now.is_new ? 0U : 1U;
  of_->begin(with, made.ends);
  with.now.is_new = with.now.peer_uses = true;
  replaced = std::exchange(with.made, std::move(made));
  of_->changed_.notify_all();
  return true;
}

void pair_claim::withdraw() {
  std::optional<made_pair> withdrawn;
  const std::lock_guard lock(of_->mutex_);
  pair_table::pair& with = of_->pairs_[peer_];
  if (with.is_closing && with.now.ends.local == published_) with.now.is_closed_by_peer = true;
  if (!with.made || with.made->ends.local != published_) return;
  withdrawn = std::exchange(with.made, std::nullopt);
  of_->counts_.requests_accepted -= 1;
}

pair_request::~pair_request() {
  if (of_ != nullptr) of_->end_asking(peer_, connected_);
}

void pair_request::count() const {
  const std::lock_guard lock(of_->mutex_);
  ++of_->counts_.requests_sent;
}

pair_closing::~pair_closing() {
  if (of_ == nullptr || !made_) return;
  std::optional<made_pair> closed;
  const std::lock_guard lock(of_->mutex_);
  pair_table::pair& with = of_->pairs_[peer_];
  with.is_closing = false;
  if (with.now.is_closed_by_peer) {
    closed = std::exchange(made_, std::nullopt);
    ++of_->counts_.closed;
    return;
  }
  with.now.is_doubtful = with.now.is_doubtful || is_unanswered_;
  with.made = std::exchange(made_, std::nullopt);
}

void pair_closing::end(close_answer answer) {
  const bool is_closed = answer == close_answer::closed || answer == close_answer::unknown;
  is_unanswered_ = false;
  const std::lock_guard lock(of_->mutex_);
  auto& now = of_->pairs_[peer_].now;
  now.is_closed_by_peer = now.is_closed_by_peer || is_closed;
  // If the epochs differ, the peer has not read the number of the request. An earlier request that
  // was not answered may still arrive.
  if (answer == close_answer::in_use) now.is_doubtful = false;
  now.peer_uses = answer == close_answer::in_use;
}

void pair_table::open(std::uint32_t epoch, std::span<const std::uint32_t> members) {
  const std::lock_guard lock(mutex_);
  for (pair& each : pairs_) each.is_member = false;
  for (const std::uint32_t each : members) pairs_[each].is_member = true;
  epoch_ = epoch;
  is_open_ = true;
}

void pair_table::close() {
  const std::lock_guard lock(mutex_);
  is_open_ = false;
}

void pair_table::forget(std::uint32_t peer) {
  std::optional<made_pair> forgotten;
  const std::lock_guard lock(mutex_);
  forgotten = take_made(peer);
}

void pair_table::remove(std::uint32_t peer) {
  std::optional<made_pair> removed;
  const std::lock_guard lock(mutex_);
  pairs_[peer].is_member = false;
  removed = take_made(peer);
}

std::optional<made_pair> pair_table::take_made(std::uint32_t peer) {
  pairs_[peer].is_used = false;
  pairs_[peer].now = {};
  return std::exchange(pairs_[peer].made, std::nullopt);
}

pair_table::turn pair_table::wait_for_turn(std::uint32_t peer, deadline until) {
  std::unique_lock lock(mutex_);
  pair& with = pairs_[peer];
  changed_.wait_until(lock, until.when(), [&] { return !with.is_accepting || with.is_ready(); });
  if (!with.is_member) return {.is_member = false};
  if (with.is_ready()) {
    with.is_used = true;
    with.now.last_use = ++uses_;
    with.now.is_marked = with.now.peer_uses = false;
    const bool was_used = !std::exchange(with.now.is_new, false);
    return {.made = std::exchange(with.made, std::nullopt), .was_used = was_used};
  }
  if (with.is_accepting) return {};
  if (with.made) return {.is_doubtful = true};
  with.asks = true;
  return {.request = pair_request(*this, peer)};
}

void pair_table::end_asking(std::uint32_t peer, const std::optional<pair_endpoints>& connected) {
  std::optional<made_pair> replaced;
  const std::lock_guard lock(mutex_);
  pair& with = pairs_[peer];
  with.asks = false;
  if (!connected) return;
  with.is_used = true;
  replaced = std::exchange(with.made, std::nullopt);
  // The peer has abandoned the connection that it had requested.
  counts_.requests_accepted -= replaced ? 1U : 0U;
  begin(with, *connected);
}

bool pair_table::has_other_requests(std::uint32_t peer) const {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t each = 0; each < pairs_.size(); ++each) {
    const pair& with = pairs_[each];
    if (each == peer ? with.asks && with.is_accepting : with.asks || with.is_accepting) return true;
  }
  return false;
}

void pair_table::pause(std::uint32_t peer, deadline until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until.when(), [&] { return pairs_[peer].is_ready(); });
}

std::vector<connected_pair> pair_table::connected() const {
  std::vector<connected_pair> out;
  const std::lock_guard lock(mutex_);
  for (std::uint32_t each = 0; each < pairs_.size(); ++each) {
    const pair& with = pairs_[each];
    if (!with.is_used && !with.made) continue;
    out.push_back({.peer = each,
                   .queue = with.now.ends.local.queue_pair,
                   .is_used = with.is_used,
                   .is_doubtful = with.now.is_doubtful,
                   .peer_uses = with.now.peer_uses,
                   .is_marked = with.now.is_marked,
                   .last_use = with.now.last_use});
  }
  return out;
}

bool pair_table::has_made(std::uint32_t peer) const {
  const std::lock_guard lock(mutex_);
  return pairs_[peer].is_ready();
}

void pair_table::detach(std::uint32_t peer, made_pair made) {
  const std::lock_guard lock(mutex_);
  pair& with = pairs_[peer];
  made.ends = with.now.ends;
  with.is_used = false;
  with.made = std::move(made);
}

void pair_table::mark(std::uint32_t peer) {
  const std::lock_guard lock(mutex_);
  pairs_[peer].now.is_marked = true;
}

std::optional<pair_closing> pair_table::begin_closing(std::uint32_t peer) {
  const std::lock_guard lock(mutex_);
  pair& with = pairs_[peer];
  // A claim that has published nothing yet may replace the queue pair.
  const bool is_replaced = with.is_accepting && !with.is_published;
  if (!is_open_ || !with.is_member || !with.made || is_replaced) return std::nullopt;
  with.is_closing = true;
  return pair_closing(*this, peer, *std::exchange(with.made, std::nullopt), ++with.now.closes_sent);
}

close_answer pair_table::answer_close(const close_request& wanted) {
  std::optional<made_pair> closed;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  pair& with = pairs_[wanted.rank];
  if (!is_open_ || epoch_ != wanted.epoch || !with.is_member) return close_answer::other_epoch;
  // The peer may have connected its side, while the confirmation has not arrived on this side. Or
  // this side closed the connection, and the peer did not get that answer: `in_use` would be wrong.
  if (with.asks) return close_answer::other_epoch;
  connection& now = with.now;
  const bool is_connected = with.is_used || with.made || with.is_closing;
  // A request that arrives after a later one, or after the pair was connected again, is late: the
  // peer no longer waits for the answer.
  if (!is_connected || now.ends.remote != wanted.local || wanted.number <= now.closes_seen)
    return close_answer::unknown;
  now.closes_seen = wanted.number;
  now.peer_uses = false;
  if (with.is_used) return close_answer::in_use;
  if (with.is_closing) {
    now.is_closed_by_peer = true;  // both sides close the connection
    return close_answer::closed;
  }
  closed = std::exchange(with.made, std::nullopt);
  now = {};
  ++counts_.closed;
  return close_answer::closed;
}

claim_or_answer pair_table::claim(std::uint32_t peer, std::uint32_t epoch) {
  const std::lock_guard lock(mutex_);
  const auto reject = [&](connection_answer why) {
    ++counts_.requests_rejected;
    return claim_or_answer{.claim = std::nullopt, .why_not = why};
  };
  pair& with = pairs_[peer];
  if (!is_open_ || epoch_ != epoch || !with.is_member)
    return reject(connection_answer::other_epoch);
  if (with.is_used) return reject(connection_answer::connected);
  if (with.asks && rank_ < peer) return reject(connection_answer::crossed);
  // If is_accepting: an earlier request that the peer has abandoned is still in progress on this
  // rank.
  if (with.is_accepting || with.is_closing || accepting_ >= max_accepting_)
    return reject(connection_answer::busy);
  with.is_accepting = true;
  with.is_published = false;
  ++accepting_;
  return {.claim = pair_claim(*this, peer, epoch)};
}

void pair_table::count_malformed() {
  const std::lock_guard lock(mutex_);
  ++counts_.malformed;
}

first_use_statistics pair_table::statistics() const {
  const std::lock_guard lock(mutex_);
  auto out = counts_;
  for (const pair& each : pairs_) {
    const bool is_unused = each.made || each.is_closing;
    out.connected += each.is_used || is_unused ? 1 : 0;
    out.unused += is_unused ? 1 : 0;
  }
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
