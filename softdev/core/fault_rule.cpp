// SPDX-License-Identifier: MIT
#include "softdev/core/fault_rule.hpp"

#include <algorithm>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {
namespace {

/// Returns a number of SplitMix64: any two states, even adjacent ones, give unrelated numbers.
std::uint64_t next_random(std::uint64_t& state) noexcept {
  state += 0x9e37'79b9'7f4a'7c15U;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d0'49bb'1331'11ebU;
  return mixed ^ (mixed >> 31U);
}

std::uint64_t first_random(const fault_rule& rule, const fault_target& target) noexcept {
  std::uint64_t state = rule.seed;
  state = next_random(state) ^ rule.number;
  state = next_random(state) ^ target.qp_index;
  return next_random(state);
}

}  // namespace

void request_faults::add(const fault_rule& rule, const fault_target& target) {
  if (rule.qp_num != 0 && rule.qp_num != target.qp_num) return;
  if (rule.qp_index != 0 && rule.qp_index != target.qp_index) return;
  rules_.push_back({.rule = rule, .random = first_random(rule, target)});
}

/// Counts a request with an opcode of the rule. Returns whether the rule selects it.
bool request_faults::counted_rule::selects_next() noexcept {
  ++seen;
  // The number is drawn for each request, so that the choice depends only on the request's index.
  const double drawn = static_cast<double>(next_random(random) >> 11U) * 0x1p-53;
  if (rule.count != 0 && applied >= rule.count) return false;
  if (rule.at != 0) return seen == rule.at;
  if (rule.every != 0) return seen % rule.every == 0;
  return rule.probability == 0 || drawn < rule.probability;
}

const fault_rule* request_faults::inspect(std::uint64_t index, opcode op) noexcept {
  if (index < inspected_) {
    if (index + 1 != inspected_ || repetitions_ == 0) return nullptr;
    --repetitions_;
    return &repeated_;
  }
  inspected_ = index + 1;
  repetitions_ = 0;
  const fault_rule* found = nullptr;
  for (counted_rule& each : rules_) {
    if ((each.rule.opcodes >> static_cast<unsigned>(op) & 1U) == 0) continue;
    if (!each.selects_next() || found != nullptr) continue;
    ++each.applied;
    found = &each.rule;
  }
  if (found == nullptr) return nullptr;
  if (found->effect == fault_effect::receiver_not_ready) {
    repeated_ = *found;
    repetitions_ = found->repetitions - 1;
  }
  return found;
}

void request_faults::hold(std::uint64_t index, time_ns due) noexcept {
  VERBENA_CHECK(end_ - first_ < held_.size(), "a send queue holds no more requests than its size");
  if (holds_any()) due = std::max(due, held_[(end_ - 1) % held_.size()].due);
  held_[end_++ % held_.size()] = {.index = index, .due = due};
}

}  // namespace verbena::softdev
