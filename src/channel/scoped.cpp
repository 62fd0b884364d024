// SPDX-License-Identifier: MIT
// The scoped level: all operations have completed when the scope ends.
#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/log.hpp"
#include "verbena/channel/operation_scope.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {

namespace {

error with_all(error why, std::span<const operation_result> recorded, std::size_t unrecorded) {
  for (const operation_result& failed : recorded)
    why = std::move(why).with_diagnosis("also: " + failed.error().message());
  if (unrecorded == 0) return why;
  return std::move(why).with_diagnosis("also: " + std::to_string(unrecorded) +
                                       " failures for whose results memory was short");
}

}  // namespace

error with_failures(error why, const unseen_failures& failures) {
  return with_all(std::move(why), failures.recorded, failures.unrecorded);
}

error from_failures(const unseen_failures& failures) {
  VERBENA_ASSERT(!failures.empty(), "error() of a scope that succeeded: check has_value() first");
  const std::span<const operation_result> recorded(failures.recorded);
  if (!recorded.empty())
    return with_all(recorded.front().error(), recorded.subspan(1), failures.unrecorded);
  return error::from_errno(ENOMEM, "channel::scope", {},
                           std::to_string(failures.unrecorded) +
                               " operations failed, and memory for their results was short");
}

held_sinks& held_sinks::operator=(held_sinks&& other) noexcept {
  if (this == &other) return *this;
  std::destroy_at(this);
  switch (other.kind_) {
    case kind::none:
      return *std::construct_at(this);
    case kind::one:
      return *std::construct_at(this, std::move(other.one_));
    case kind::list:
      return *std::construct_at(this, std::move(other.list_));
  }
  __builtin_unreachable();
}

}  // namespace detail

// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init): link() sets before_ and behind_
scoped_operation::scoped_operation(operation_scope& scope, const operation_result& how,
                                   sink&& into) noexcept
    : operation_waiter{.result = how, .ended = true}, scope_(&scope), sinks_(std::move(into)) {
  link();
}

scoped_operation::scoped_operation(operation_scope& scope,
                                   const detail::operation_description& what,
                                   std::source_location posted)
    : scope_(&scope) {
  post(what, posted);
}

scoped_operation::scoped_operation(operation_scope& scope, detail::operation_description what,
                                   sink&& into, std::source_location posted)
    : scope_(&scope), sinks_(std::move(into)) {
  what.in = std::span(sinks_.one(), 1);
  post(what, posted);
}

scoped_operation::scoped_operation(operation_scope& scope, detail::operation_description what,
                                   std::vector<sink>&& into, std::source_location posted)
    : scope_(&scope), sinks_(std::move(into)) {
  what.in = *sinks_.list();
  post(what, posted);
}
// NOLINTEND(cppcoreguidelines-pro-type-member-init)

void scoped_operation::post(const detail::operation_description& what,
                            std::source_location posted) {
  result = detail::channel_core::hope(posted);
  slot_ = scope_->core_.post(what, {.waiter = this, .scope = scope_, .posted = posted});
  if (slot_ == nullptr) link();
}

scoped_operation::scoped_operation(scoped_operation&& other) noexcept { take_over(other); }

scoped_operation& scoped_operation::operator=(scoped_operation&& other) noexcept {
  if (this != &other) {
    let_go();
    take_over(other);
  }
  return *this;
}

void scoped_operation::link() noexcept {
  before_ = nullptr;
  behind_ = scope_->first_;
  if (behind_ != nullptr) behind_->before_ = this;
  scope_->first_ = this;
}

void scoped_operation::unlink_from(operation_scope& scope) noexcept {
  (before_ != nullptr ? before_->behind_ : scope.first_) = behind_;
  if (behind_ != nullptr) behind_->before_ = before_;
  scope_ = nullptr;
}

void scoped_operation::take_over(scoped_operation& other) noexcept {
  result = other.result;
  ended = std::exchange(other.ended, false);
  sinks_ = std::move(other.sinks_);
  slot_ = std::exchange(other.slot_, nullptr);
  scope_ = std::exchange(other.scope_, nullptr);
  if (scope_ == nullptr) return;
  if (slot_ == nullptr) {
    (other.before_ != nullptr ? other.before_->behind_ : scope_->first_) = this;
    if (other.behind_ != nullptr) other.behind_->before_ = this;
    before_ = other.before_;
    behind_ = other.behind_;
  } else {
    detail::channel_core::redirect(*slot_, this);
  }
}

void scoped_operation::let_go() noexcept {
  if (scope_ == nullptr) return;
  operation_scope& scope = *scope_;
  if (slot_ == nullptr) {
    unlink_from(scope);
    scope.not_inspected(result.posted());
    if (!result.has_value()) scope.ended_unseen(result);
  } else {
    scope_ = nullptr;
    if (const sink* const one = sinks_.one(); one != nullptr) slot_->use(one->slice());
    scope.not_inspected(slot_->posted);
    detail::channel_core::redirect(*slot_, nullptr);
  }
}

bool scoped_operation::uses(const detail::registered_range& memory) noexcept {
  const auto is_in = [&](const sink& each) {
    return memory.contains(each.slice().key(), each.slice().address());
  };
  if (const sink* const one = sinks_.one(); one != nullptr) return is_in(*one);
  if (const auto* const list = sinks_.list(); list != nullptr)
    return std::ranges::any_of(*list, is_in);
  return memory.contains(slot_->key, slot_->address);
}

const operation_result& scoped_operation::look() noexcept {
  VERBENA_ASSERT(ended, "a moved-from operation was used");
  if (scope_ != nullptr) unlink_from(*scope_);
  return result;
}

const operation_result* scoped_operation::poll() & {
  if (slot_ != nullptr) scope_->core_.progress();
  return slot_ == nullptr ? &look() : nullptr;
}

const operation_result& scoped_operation::wait_longer(detail::found what) {
  detail::channel_core& core = scope_->core_;
  if (what == detail::found::something_else) core.deliver(result);
  if (!ended) core.await(*this, scope_->limit_.when());
  return look();
}

const operation_result* scoped_operation::wait(deadline until) & {
  if (slot_ != nullptr && !scope_->core_.wait(*this, until)) return nullptr;
  return &look();
}

std::vector<sink> scoped_operation::take_sinks() {
  VERBENA_ASSERT(ended,
                 "take_sinks() of an operation in flight: call it after poll() or wait() has "
                 "returned a result");
  std::vector<sink>* const several = sinks_.list();
  return several != nullptr ? std::move(*several) : std::vector<sink>();
}

void detail::ended_in(operation_scope& scope, operation_waiter* handle) noexcept {
  --scope.in_flight_;
  if (handle == nullptr) return;
  auto& ended = *static_cast<scoped_operation*>(handle);
  ended.slot_ = nullptr;
  ended.link();
}

operation_scope::operation_scope(detail::channel_core& core, abort_at limit, policy what) noexcept
    : memory_user(&user_of),
      core_(core),
      limit_(limit),
      policy_(what),
      has_limit_(!limit.when().is_never()) {
  core_.hold();
}

const std::source_location* operation_scope::user_of(
    const detail::memory_user& self, const detail::registered_range& memory) noexcept {
  const auto& scope = static_cast<const operation_scope&>(self);
  if (scope.in_flight_ == 0) return nullptr;
  for (const detail::operation_slot& slot : scope.core_.table().slots()) {
    if (slot.owner == nullptr || slot.scope != &scope) continue;
    auto* const handle = static_cast<scoped_operation*>(slot.waiter);
    if (handle != nullptr ? handle->uses(memory) : memory.contains(slot.key, slot.address))
      return &slot.posted;
  }
  return nullptr;
}

operation_scope::~operation_scope() {
  if (!over_) {
    const detail::unseen_failures failures = finish();
    for (const operation_result& failed : failures.recorded)
      log(log_level::warning,
          "operation failed while an exception ended its scope: " + failed.error().message());
    if (failures.unrecorded != 0)
      log(log_level::warning,
          "further operations failed while an exception ended their scope, and memory was short");
  }
  detail::channel_core::release(&core_);
}

detail::unseen_failures operation_scope::finish() {
  core_.drain(*this, limit_.when());
  over_ = true;
  // Handles that still exist keep their results and no longer refer to the scope.
  while (first_ != nullptr) {
    scoped_operation& handle = *first_;
    handle.unlink_from(*this);
    not_inspected(handle.result.posted());
    ended_unseen(handle.result);
  }
  return std::move(failures_);
}

void operation_scope::finish_demanding() {
  over_ = in_flight_ == 0 && first_ == nullptr && !has_unseen_ && failures_.empty();
  if (over_) [[likely]]
    return;
  const auto failures = finish();
  if (!has_unseen_) return;
  std::string broken = "manual_scope() succeeded without inspecting an operation that it posted";
  if (!failures.recorded.empty())
    broken += "; an operation failed: " + failures.recorded.front().error().message();
  detail::stop_on_violation(broken.c_str(), unseen_.file_name(), static_cast<int>(unseen_.line()));
}

void operation_scope::ended_unseen(const operation_result& how) noexcept {
  if (how.has_value()) return;
#ifdef VERBENA_NO_EXCEPTIONS
  failures_.recorded.push_back(how);
#else
  try {
    failures_.recorded.push_back(how);
  } catch (const std::bad_alloc&) {
    ++failures_.unrecorded;
  }
#endif
}

void operation_scope::not_inspected(std::source_location posted) noexcept {
  if (has_unseen_ || policy_ != policy::demand) return;
  unseen_ = posted;
  has_unseen_ = true;
}

using detail::operation_kind;

scoped_operation operation_scope::refused(operation_kind kind, int code, sink&& into,
                                          place_of_post posted) {
  return {*this, operation_result::refuse_post(kind, code, posted.at()), std::move(into)};
}

scoped_operation operation_scope::fill(operation_kind kind, sink&& into, const remote_region& from,
                                       place_of_post posted) {
  return {*this, {.kind = kind, .remote = from}, std::move(into), posted.at()};
}

scoped_operation operation_scope::send(const outgoing& data, const operation_options& options,
                                       std::source_location posted) {
  return {*this, {.kind = operation_kind::send, .out = data, .options = options}, posted};
}

scoped_operation operation_scope::receive(std::vector<sink> into, std::source_location posted) {
  return {*this, {.kind = operation_kind::receive}, std::move(into), posted};
}

scoped_operation operation_scope::write(const outgoing& data, const remote_region& to,
                                        const operation_options& options,
                                        std::source_location posted) {
  return {*this,
          {.kind = operation_kind::write, .out = data, .remote = to, .options = options},
          posted};
}

scoped_operation operation_scope::read(std::vector<sink> into, const remote_region& from,
                                       std::source_location posted) {
  return {*this, {.kind = operation_kind::read, .remote = from}, std::move(into), posted};
}

scoped_operation operation_scope::compare_and_swap(sink before, const remote_region& target,
                                                   compare_and_swap_operands operands,
                                                   std::source_location posted) {
  return {*this, detail::operation_description::comparison(target, operands), std::move(before),
          posted};
}

scoped_operation operation_scope::fetch_and_add(sink before, const remote_region& target,
                                                std::uint64_t addend, std::source_location posted) {
  return {*this, detail::operation_description::addition(target, addend), std::move(before),
          posted};
}

}  // namespace verbena::inline VERBENA_ABI
