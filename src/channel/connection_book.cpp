// SPDX-License-Identifier: MIT
#include "src/channel/connection_book.hpp"

#include <utility>

#include "verbena/base/random.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

std::uint64_t messages_of(const kind_counts& of) noexcept {
  return of[static_cast<std::size_t>(operation_kind::send)] +
         of[static_cast<std::size_t>(operation_kind::write_with_immediate)];
}

}  // namespace

connection_book::connection_book(counting counts) : identity_(random_u64()), counts_(counts) {
  while (identity_ == 0) identity_ = random_u64();
}

resume_token connection_book::next() {
  resume_token out{.self = {.channel = identity_, .connection = ++attempts_}};
  if (!last_ || !last_->peer) return out;
  out.before = {.connection = last_->number, .peer = *last_->peer};
  if (last_->counted) out.before->received = last_->received;
  return out;
}

void connection_book::begin(std::uint64_t number) noexcept {
  connected_ = number;
  counted_ = counts_ == counting::yes;
  failed_ = 0;
  failed_receives_ = 0;
  peer_.reset();
}

void connection_book::meet(const std::optional<resume_token>& peer) noexcept {
  if (peer) peer_ = peer->self;
}

void connection_book::finish(const kind_counts& posted) noexcept {
  if (connected_ == 0) return;
  last_ = {.number = std::exchange(connected_, 0),
           .peer = peer_,
           .counted = counted_,
           .received = posted[static_cast<std::size_t>(operation_kind::receive)] - failed_receives_,
           .sent = messages_of(posted) - failed_,
           .failed = failed_,
           .first_failed = numbered_};
  numbered_ += static_cast<std::uint32_t>(failed_);
}

}  // namespace verbena::inline VERBENA_ABI::detail
