// SPDX-License-Identifier: MIT
#include "src/net/published_values.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "src/base/earliest.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

template <class Condition>
published_values::due_replies published_values::end_waiting(const store_reply& with,
                                                            Condition&& holds, due_replies due) {
  const std::size_t begin = due.size();
  for (const auto& [rank, waiting] : waiting_) {
    if (!holds(waiting)) continue;
    auto& made = due.emplace_back(due_reply{.to = rank, .reply = with});
    made.reply.number = waiting.what.number;
  }
  for (const auto& each : std::span(due).subspan(begin)) waiting_.erase(each.to);
  return due;
}

published_values::due_replies published_values::publish(std::uint32_t by, store_publish what) {
  auto& own = ranks_[by];
  const auto refuse = [&](value_outcome why, std::uint64_t limit) {
    return due_replies{
        {.to = by, .reply = {.number = what.number, .outcome = why, .detail = limit, .value = {}}}};
  };
  const auto found = own.values.find(what.name);
  const bool is_new = found == own.values.end();
  const std::size_t before = is_new ? 0 : what.name.size() + found->second.size();
  const std::size_t after = what.name.size() + what.value.size();
  if (is_new && own.values.size() >= limits_->max_values_per_rank)
    return refuse(value_outcome::too_many, limits_->max_values_per_rank);
  if (own.bytes - before + after > limits_->max_value_bytes_per_rank)
    return refuse(value_outcome::too_many_bytes, limits_->max_value_bytes_per_rank);
  if (*bytes_of_all_ - before + after > limits_->max_value_bytes)
    return refuse(value_outcome::full, limits_->max_value_bytes);
  const auto set = own.values.insert_or_assign(std::move(what.name), std::move(what.value)).first;
  own.bytes += after - before;
  *bytes_of_all_ += after - before;
  auto due = end_waiting({.value = set->second},
                         [&](const waiting_rank& each) {
                           return each.what.rank == by && each.what.name == set->first;
                         },
                         {{.to = by, .reply = {.number = what.number, .value = {}}}});
  std::ranges::rotate(due, due.begin() + 1);  // the sender is the last
  return due;
}

published_values::due_replies published_values::withdraw(std::uint32_t by,
                                                         const store_withdraw& what) {
  auto& own = ranks_[by];
  store_reply reply{.number = what.number, .value = {}};
  const auto found = own.values.find(what.name);
  if (found == own.values.end()) {
    reply.outcome = value_outcome::unknown;
  } else {
    const std::size_t bytes = what.name.size() + found->second.size();
    own.bytes -= bytes;
    *bytes_of_all_ -= bytes;
    own.values.erase(found);
  }
  return {{.to = by, .reply = std::move(reply)}};
}

published_values::due_replies published_values::find(std::uint32_t by, store_find what) {
  const auto& theirs = ranks_[what.rank].values;
  if (const auto found = theirs.find(what.name); found != theirs.end())
    return {{.to = by, .reply = {.number = what.number, .value = found->second}}};
  const auto until = deadline::after(std::chrono::milliseconds(what.timeout_ms));
  waiting_.insert_or_assign(by, waiting_rank{.what = std::move(what), .until = until});
  return {};
}

published_values::due_replies published_values::remove(std::uint32_t rank) {
  waiting_.erase(rank);
  *bytes_of_all_ -= std::exchange(ranks_[rank], {}).bytes;
  return end_waiting({.outcome = value_outcome::gone, .value = {}},
                     [&](const waiting_rank& each) { return each.what.rank == rank; });
}

published_values::due_replies published_values::interrupt(std::uint32_t by) {
  return end_waiting({.outcome = value_outcome::interrupted, .detail = by, .value = {}},
                     [](const waiting_rank&) { return true; });
}

published_values::due_replies published_values::expire() {
  return end_waiting({.outcome = value_outcome::missing, .value = {}},
                     [](const waiting_rank& each) { return each.until.expired(); });
}

deadline published_values::first_end() const noexcept {
  deadline first = deadline::never();
  for (const auto& [rank, waiting] : waiting_)
    first = verbena::detail::earliest(first, waiting.until);
  return first;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
