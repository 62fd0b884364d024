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
  replaced = std::exchange(with.made, std::move(made));
  // The peer has abandoned the connection that is replaced.
  of_->counts_.requests_accepted += replaced ? 0U : 1U;
  of_->changed_.notify_all();
  return true;
}

void pair_claim::withdraw() {
  std::optional<made_pair> withdrawn;
  const std::lock_guard lock(of_->mutex_);
  withdrawn = std::exchange(of_->pairs_[peer_].made, std::nullopt);
  of_->counts_.requests_accepted -= withdrawn ? 1U : 0U;
}

pair_request::~pair_request() {
  if (of_ != nullptr) of_->end_asking(peer_, has_connected_);
}

void pair_request::count() const {
  const std::lock_guard lock(of_->mutex_);
  ++of_->counts_.requests_sent;
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
  return std::exchange(pairs_[peer].made, std::nullopt);
}

pair_table::turn pair_table::wait_for_turn(std::uint32_t peer, deadline until) {
  std::unique_lock lock(mutex_);
  pair& with = pairs_[peer];
  changed_.wait_until(lock, until.when(), [&] { return !with.is_accepting || with.made; });
  if (!with.is_member) return {.is_member = false};
  if (with.made) {
    with.is_used = true;
    return {.made = std::exchange(with.made, std::nullopt)};
  }
  if (with.is_accepting) return {};
  with.asks = true;
  return {.request = pair_request(*this, peer)};
}

void pair_table::end_asking(std::uint32_t peer, bool has_connected) {
  std::optional<made_pair> replaced;
  const std::lock_guard lock(mutex_);
  pair& with = pairs_[peer];
  with.asks = false;
  if (!has_connected) return;
  with.is_used = true;
  replaced = std::exchange(with.made, std::nullopt);
  // The peer has abandoned the connection that it had requested.
  counts_.requests_accepted -= replaced ? 1U : 0U;
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
  changed_.wait_until(lock, until.when(), [&] { return pairs_[peer].made.has_value(); });
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
  if (with.is_accepting || accepting_ >= max_accepting_) return reject(connection_answer::busy);
  with.is_accepting = true;
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
    out.connected += each.is_used || each.made ? 1 : 0;
    out.unused += each.made ? 1 : 0;
  }
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
