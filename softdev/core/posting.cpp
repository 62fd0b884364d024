// SPDX-License-Identifier: MIT
#include "softdev/core/posting.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>

#include "softdev/core/copy.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/transport/request_extra.hpp"
#include "softdev/core/transport/rules.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::softdev {
namespace {

sge element(sge_list list, std::uint32_t index) noexcept {
  sge one;
  std::memcpy(&one, static_cast<const std::byte*>(list.entries) + index * sizeof one, sizeof one);
  return one;
}

/// Copies elements member by member, because programs write them just before they post.
void copy_elements(std::byte* to, sge_list list) noexcept {
  for (std::uint32_t i = 0; i < list.count; ++i) {
    const std::byte* const from = static_cast<const std::byte*>(list.entries) + i * sizeof(sge);
    sge& one = *::new (to + i * sizeof(sge)) sge;
    std::memcpy(&one.address, from + offsetof(sge, address), sizeof one.address);
    std::memcpy(&one.length, from + offsetof(sge, length), sizeof one.length);
    std::memcpy(&one.lkey, from + offsetof(sge, lkey), sizeof one.lkey);
  }
}

bool takes_sends(queue_pair_state state) {
  return state == queue_pair_state::rts || state == queue_pair_state::sqd ||
         state == queue_pair_state::sqe || state == queue_pair_state::error;
}

}  // namespace

void send_posting::open() noexcept {
  __builtin_prefetch(self_.path().needed_memory());
  lock_.lock();
  self_.sender().begin_batch();
  batch_begin_ = self_.sender().queue().posted();
}

/// Adds a request without data. If it is refused, returns nullptr and the error in `code`.
[[gnu::always_inline]] inline send_entry* send_posting::begin(const send_request& request,
                                                              int& code) noexcept {
  if (!takes_sends(self_.state()) || !rules_of(self_.transport()).carries(request.opcode)) {
    code = EINVAL;
    return nullptr;
  }
  send_queue& queue = self_.sender().queue();
  if (queue.full()) {
    code = ENOMEM;
    return nullptr;
  }
  begin_request_extra(self_.transport(), queue.extra(queue.posted()));
  send_entry& entry = queue.next();
  // Copies member by member: a plain copy would wait for the stores of the request, which are
  // recent.
  entry.request.wr_id = request.wr_id;
  entry.request.opcode = request.opcode;
  entry.request.flags = request.flags.without(send_flag::inline_data);
  entry.request.immediate = request.immediate;
  entry.request.remote_address = request.remote_address;
  entry.request.remote_key = request.remote_key;
  if (is_atomic(request.opcode)) {
    entry.request.compare_or_add = request.compare_or_add;
    entry.request.swap = request.swap;
  }
  queue.push();
  code = 0;
  return &entry;
}

int send_posting::add(const send_request& request) noexcept {
  int code = 0;
  static_cast<void>(begin(request, code));
  return code;
}

int send_posting::add(const send_request& request, sge_list data) noexcept {
  int code = 0;
  send_entry* const entry = begin(request, code);
  if (entry == nullptr) return code;
  if (!request.flags.contains(send_flag::inline_data)) {
    if (data.count <= self_.sender().queue().max_sges()) {
      entry->sge_count = data.count;
      copy_elements(send_queue::payload_of(*entry), data);
      return 0;
    }
    code = EINVAL;
  } else {
    code = append_inline(nullptr, 0);
    for (std::uint32_t i = 0; i < data.count && code == 0; ++i) {
      const sge one = element(data, i);
      code = append_inline(reinterpret_cast<const void*>(one.address), one.length);
    }
  }
  if (code != 0) take_back();
  return code;
}

void send_posting::take_back() noexcept {
  self_.sender().queue().truncate(self_.sender().queue().posted() - 1);
}

int send_posting::set_sges(sge_list data) noexcept {
  send_queue& queue = self_.sender().queue();
  VERBENA_CHECK(queue.posted() > batch_begin_, "data belong to a request of the open batch");
  if (data.count > queue.max_sges()) return EINVAL;
  const std::uint64_t index = queue.posted() - 1;
  send_entry& entry = queue.at(index);
  entry.sge_count = data.count;
  entry.request.flags = entry.request.flags.without(send_flag::inline_data);
  copy_elements(queue.payload(index), data);
  return 0;
}

int send_posting::append_inline(const void* data, std::size_t bytes) noexcept {
  send_queue& queue = self_.sender().queue();
  VERBENA_CHECK(queue.posted() > batch_begin_, "data belong to a request of the open batch");
  const std::uint64_t index = queue.posted() - 1;
  send_entry& entry = queue.at(index);
  if (is_read_or_atomic(entry.request.opcode) ||
      bytes > queue.max_inline_bytes() - entry.inline_bytes)
    return EINVAL;
  entry.request.flags |= send_flag::inline_data;
  if (copy_payload(queue.payload(index) + entry.inline_bytes, static_cast<const std::byte*>(data),
                   bytes) != copy_fault::none)
    return EFAULT;
  entry.inline_bytes += static_cast<std::uint32_t>(bytes);
  return 0;
}

void send_posting::set_destination(const datagram_destination& to) noexcept {
  send_queue& queue = self_.sender().queue();
  VERBENA_CHECK(queue.posted() > batch_begin_ && !rules_of(self_.transport()).connected,
                "a destination belongs to a datagram of the open batch");
  self_.sender().destination(queue.posted() - 1) = to;
}

void send_posting::submit() noexcept {
  {
    const std::unique_lock lock(lock_, std::adopt_lock);
    const access_epoch::guard inside(self_.home().epoch());
    self_.sender().run();
  }
  if (self_.state() != queue_pair_state::error) return;
  const std::lock_guard lock(self_.receive_lock());
  if (self_.state() == queue_pair_state::error) self_.receiver().flush();
}

void send_posting::abort() noexcept {
  self_.sender().queue().truncate(batch_begin_);
  lock_.unlock();
}

void receive_posting::open() noexcept { lock_.lock(); }

int receive_posting::add(std::uint64_t wr_id, sge_list sinks) noexcept {
  receive_queue& queue = self_.receiver().queue();
  if (self_.options().shared_receives != nullptr || self_.state() == queue_pair_state::reset ||
      sinks.count > queue.max_sges())
    return EINVAL;
  if (queue.full()) return ENOMEM;
  const std::uint64_t index = queue.posted();
  receive_entry& entry = queue.next();
  entry.wr_id = wr_id;
  entry.sge_count = sinks.count;
  copy_elements(queue.payload(index), sinks);
  queue.push();
  return 0;
}

void receive_posting::close() noexcept {
  if (self_.state() == queue_pair_state::error) self_.receiver().flush();
  lock_.unlock();
}

}  // namespace verbena::softdev
