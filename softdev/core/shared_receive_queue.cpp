// SPDX-License-Identifier: MIT
#include "softdev/core/shared_receive_queue.hpp"

#include <cerrno>
#include <cstring>
#include <mutex>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {

shared_receive_queue::shared_receive_queue(const shared_receive_options& options)
    : domain_(options.domain),
      max_sges_(options.max_sge),
      observer_(options.observer),
      owner_(options.owner) {
  VERBENA_ASSERT(options.max_wr >= 1 && options.max_wr <= limits::max_work_requests &&
                     options.max_sge <= limits::max_sges,
                 "the size of a shared receive queue is within the device's limits");
  queue_ = std::make_unique<receive_queue>(
      receive_queue::sizes{.wr_count = options.max_wr, .max_sges = max_sges_});
}

int shared_receive_queue::add(std::uint64_t wr_id, sge_list sinks) noexcept {
  if (sinks.count > max_sges_) return EINVAL;
  if (queue_->full()) return ENOMEM;
  const std::uint64_t index = queue_->posted();
  receive_entry& entry = queue_->next();
  entry.wr_id = wr_id;
  entry.sge_count = sinks.count;
  if (sinks.count > 0)
    std::memcpy(queue_->payload(index), sinks.entries, sinks.count * sizeof(sge));
  queue_->push();
  return 0;
}

shared_receive_queue::attributes shared_receive_queue::query() noexcept {
  const std::lock_guard lock(lock_);
  return {.max_wr = queue_->capacity(), .max_sge = max_sges_, .limit = limit_};
}

int shared_receive_queue::modify(const change& wanted) {
  std::unique_ptr<receive_queue> other;
  if (wanted.max_wr) {
    if (*wanted.max_wr == 0 || *wanted.max_wr > limits::max_work_requests) return EINVAL;
    other = std::make_unique<receive_queue>(
        receive_queue::sizes{.wr_count = *wanted.max_wr, .max_sges = max_sges_});
  }
  const std::lock_guard lock(lock_);
  const std::uint32_t limit = wanted.limit.value_or(limit_);
  if (limit > (other ? *other : *queue_).capacity()) return EINVAL;
  if (other) {
    const std::uint64_t end = queue_->posted();
    const std::uint64_t first = queue_->released().load(std::memory_order_relaxed);
    if (end - first > other->capacity()) return EINVAL;
    for (std::uint64_t index = first; index < end; ++index) copy_entry(*queue_, index, *other);
    queue_.swap(other);
  }
  limit_ = limit;
  return 0;
}

bool shared_receive_queue::take(receive_queue& to) noexcept {
  bool reached = false;
  {
    const std::lock_guard lock(lock_);
    const std::uint64_t index = queue_->released().load(std::memory_order_relaxed);
    const std::uint64_t end = queue_->posted();
    if (index == end) return false;
    copy_entry(*queue_, index, to);
    queue_->released().store(index + 1, std::memory_order_relaxed);
    reached = end - (index + 1) < limit_;
    if (reached) limit_ = 0;
  }
  if (reached && observer_ != nullptr) observer_->limit_reached(*this);
  return true;
}

void shared_receive_queue::copy_entry(receive_queue& from, std::uint64_t index,
                                      receive_queue& to) noexcept {
  const receive_entry entry = from.at(index);
  const std::uint64_t place = to.posted();
  to.next() = entry;
  if (entry.sge_count > 0)
    std::memcpy(to.payload(place), from.payload(index), entry.sge_count * sizeof(sge));
  to.push();
}

}  // namespace verbena::softdev
