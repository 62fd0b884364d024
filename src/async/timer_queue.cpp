// SPDX-License-Identifier: MIT
#include "verbena/async/detail/timer_queue.hpp"

#include <utility>

namespace verbena::inline VERBENA_ABI::async::detail {
namespace {

// Melds two heaps. The root with the later time becomes the first child of the other root.
timer* meld(timer* one, timer* other) noexcept {
  if (one == nullptr) return other;
  if (other == nullptr) return one;
  if (other->when < one->when) std::swap(one, other);
  other->previous = one;
  other->next = one->child;
  if (one->child != nullptr) one->child->previous = other;
  one->child = other;
  return one;
}

// Melds a list of siblings: first in pairs, then all pairs from the last to the first.
timer* meld_siblings(timer* first) noexcept {
  timer* pairs = nullptr;  // linked by `next`, the last pair first
  while (first != nullptr) {
    timer* const one = first;
    timer* const other = one->next;
    first = other == nullptr ? nullptr : other->next;
    one->next = one->previous = nullptr;
    if (other != nullptr) other->next = other->previous = nullptr;
    timer* const pair = meld(one, other);
    pair->next = pairs;
    pairs = pair;
  }
  timer* all = nullptr;
  while (pairs != nullptr) {
    timer* const rest = std::exchange(pairs->next, nullptr);
    all = meld(all, pairs);
    pairs = rest;
  }
  return all;
}

}  // namespace

void timer_queue::set(timer& which, time_point when) noexcept {
  which.when = when;
  which.child = which.next = which.previous = nullptr;
  which.is_set = true;
  first_ = meld(first_, &which);
}

void timer_queue::reset(timer& which) noexcept {
  if (!which.is_set) return;
  which.is_set = false;
  timer* const children = meld_siblings(std::exchange(which.child, nullptr));
  if (&which == first_) {
    first_ = children;
    return;
  }
  timer*& link = which.previous->child == &which ? which.previous->child : which.previous->next;
  link = which.next;
  if (which.next != nullptr) which.next->previous = which.previous;
  first_ = meld(first_, children);
}

std::size_t timer_queue::expire(time_point now) noexcept {
  std::size_t count = 0;
  while (first_ != nullptr && first_->when <= now) {
    timer& expired = *first_;
    reset(expired);
    expired.expire(expired);
    ++count;
  }
  return count;
}

}  // namespace verbena::inline VERBENA_ABI::async::detail
