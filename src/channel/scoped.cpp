// SPDX-License-Identifier: MIT
// The scoped level: what was posted is over when the scope is.
#include <string>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/log.hpp"
#include "verbena/channel/operation_scope.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {

error with_failures(error why, std::span<const operation_result> failures) {
  for (const operation_result& failed : failures)
    why = std::move(why).with_diagnosis("besides: " + failed.error().message());
  return why;
}

error from_failures(std::span<const operation_result> failures) {
  VERBENA_ASSERT(!failures.empty(), "error() is of a scope that failed");
  return with_failures(failures.front().error(), failures.subspan(1));
}

}  // namespace detail

scoped_operation::scoped_operation(operation_scope& scope, detail::operation_slot& posted) noexcept
    : scope_(&scope), slot_(&posted) {
  posted.waiter = this;
  posted.scope = &scope;
  ++scope.in_flight_;
  link();
}

scoped_operation::scoped_operation(operation_scope& scope, detail::operation_slot& posted,
                                   sink&& into) noexcept
    : scoped_operation(scope, posted) {
  one_ = std::move(into);
}

scoped_operation::scoped_operation(operation_scope& scope,
                                   const detail::operation_description& what,
                                   std::source_location posted)
    : scope_(&scope) {
  post(what, posted);
}

scoped_operation::scoped_operation(operation_scope& scope, detail::operation_description what,
                                   sink&& into, std::source_location posted)
    : scope_(&scope), one_(std::move(into)) {
  what.in = std::span(&one_, 1);
  post(what, posted);
}

scoped_operation::scoped_operation(operation_scope& scope, detail::operation_description what,
                                   std::vector<sink>&& into, std::source_location posted)
    : scope_(&scope), several_(std::move(into)) {
  what.in = several_;
  post(what, posted);
}

void scoped_operation::post(const detail::operation_description& what,
                            std::source_location posted) {
  slot_ = scope_->core_.post(what, {.waiter = this, .scope = scope_, .posted = posted});
  link();
}

scoped_operation::scoped_operation(scoped_operation&& other) noexcept { take_over(other); }

scoped_operation& scoped_operation::operator=(scoped_operation&& other) noexcept {
  if (this != &other) {
    let_go();
    take_over(other);
  }
  return *this;
}

scoped_operation::~scoped_operation() { let_go(); }

void scoped_operation::link() noexcept {
  before_ = nullptr;
  behind_ = scope_->first_;
  if (behind_ != nullptr) behind_->before_ = this;
  scope_->first_ = this;
}

void scoped_operation::unlink() noexcept {
  if (scope_ == nullptr) return;
  (before_ != nullptr ? before_->behind_ : scope_->first_) = behind_;
  if (behind_ != nullptr) behind_->before_ = before_;
  scope_ = nullptr;
}

void scoped_operation::take_over(scoped_operation& other) noexcept {
  result = other.result;
  ended = std::exchange(other.ended, false);
  one_ = std::move(other.one_);
  several_ = std::move(other.several_);
  slot_ = std::exchange(other.slot_, nullptr);
  scope_ = other.scope_;
  if (scope_ == nullptr) return;
  other.unlink();
  link();
  if (!ended) detail::channel_core::redirect(*slot_, this);
}

void scoped_operation::let_go() noexcept {
  if (scope_ == nullptr) return;
  operation_scope& scope = *scope_;
  unlink();
  if (ended) {
    scope.never_looked_at(result.posted());
    if (!result.ok()) scope.ended_unseen(result);
  } else {
    scope.never_looked_at(slot_->posted);
    detail::channel_core::redirect(*slot_, nullptr);
  }
}

const operation_result& scoped_operation::look() noexcept {
  unlink();
  return result;
}

const operation_result* scoped_operation::poll() {
  if (!ended) {
    VERBENA_ASSERT(scope_ != nullptr, "a moved-from operation must not be used");
    scope_->core_.progress();
  }
  return ended ? &look() : nullptr;
}

const operation_result& scoped_operation::wait() {
  if (!ended) {
    VERBENA_ASSERT(scope_ != nullptr, "a moved-from operation must not be used");
    detail::channel_core& core = scope_->core_;
    operation_result polled;
    switch (core.poll_for(*slot_, polled, slot_->posted)) {
      case detail::found::it:
        result = polled;
        ended = true;
        --scope_->in_flight_;
        break;
      case detail::found::something_else:
        core.deliver(polled);
        [[fallthrough]];
      case detail::found::nothing:
        if (!ended) core.await(*this, scope_->until_);
    }
  }
  return look();
}

sink scoped_operation::take_sink() {
  VERBENA_ASSERT(ended, "a sink is the adapter's until poll() or wait() gave a result");
  return std::move(one_);
}

std::vector<sink> scoped_operation::take_sinks() {
  VERBENA_ASSERT(ended, "a sink is the adapter's until poll() or wait() gave a result");
  return std::move(several_);
}

operation_scope::operation_scope(detail::channel_core& core, deadline until, policy what) noexcept
    : core_(core), until_(until), policy_(what) {
  core_.hold();
}

operation_scope::~operation_scope() {
  if (!over_) {
    for (const operation_result& failed : finish())
      log(log_level::warning,
          "while a scope was left by an exception: " + failed.error().message());
  }
  detail::channel_core::release(&core_);
}

std::vector<operation_result> operation_scope::finish() {
  core_.drain(*this, until_);
  over_ = true;
  // Handles that live on keep their results, and need the scope no more.
  while (first_ != nullptr) {
    scoped_operation& handle = *first_;
    never_looked_at(handle.result.posted());
    if (!handle.result.ok()) failures_.push_back(handle.result);
    handle.unlink();
  }
  return std::move(failures_);
}

void operation_scope::finish_demanding() {
  const auto failures = finish();
  if (!unseen_) return;
  std::string broken = "a manual scope that succeeds has looked at every operation";
  if (!failures.empty()) broken += "; one failed: " + failures.front().error().message();
  detail::stop_on_broken_rule(broken.c_str(), unseen_->file_name(),
                              static_cast<int>(unseen_->line()));
}

void operation_scope::ended_unseen(const operation_result& how) {
  if (!how.ok()) failures_.push_back(how);
}

void operation_scope::never_looked_at(std::source_location posted) noexcept {
  if (!unseen_ && policy_ == policy::demand) unseen_ = posted;
}

using detail::operation_kind;

scoped_operation operation_scope::send(const outgoing& data, const operation_options& options,
                                       std::source_location posted) {
  if (auto* slot = core_.post_usual<operation_kind::send>(data, options, {}, posted);
      slot != nullptr) [[likely]]
    return {*this, *slot};
  return {*this, {.kind = operation_kind::send, .out = data, .options = options}, posted};
}

scoped_operation operation_scope::receive(sink into, std::source_location posted) {
  if (auto* slot = core_.post_usual<operation_kind::receive>(into, {}, posted); slot != nullptr)
      [[likely]]
    return {*this, *slot, std::move(into)};
  return {*this, {.kind = operation_kind::receive}, std::move(into), posted};
}

scoped_operation operation_scope::receive(std::vector<sink> into, std::source_location posted) {
  return {*this, {.kind = operation_kind::receive}, std::move(into), posted};
}

scoped_operation operation_scope::write(const outgoing& data, const remote_region& to,
                                        const operation_options& options,
                                        std::source_location posted) {
  if (auto* slot = core_.post_usual<operation_kind::write>(data, options, to, posted);
      slot != nullptr) [[likely]]
    return {*this, *slot};
  return {*this,
          {.kind = operation_kind::write, .out = data, .remote = to, .options = options},
          posted};
}

scoped_operation operation_scope::read(sink into, const remote_region& from,
                                       std::source_location posted) {
  if (auto* slot = core_.post_usual<operation_kind::read>(into, from, posted); slot != nullptr)
      [[likely]]
    return {*this, *slot, std::move(into)};
  return {*this, {.kind = operation_kind::read, .remote = from}, std::move(into), posted};
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
