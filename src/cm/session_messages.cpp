// SPDX-License-Identifier: MIT
// Advertisement messages.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "src/cm/request_ids.hpp"
#include "src/cm/session_core.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

result<void> session_core::expect_message() {
  const held lock(mutex_);
  VERBENA_TRY_VOID(check_post("expect_advertisement", 0));
  const auto slot = objects_.incoming.take();
  if (!slot) return too_many("expect_advertisement");
  auto posted = post_receive({.id = library_mark | *slot}, as_list(objects_.incoming.slice(*slot)));
  if (posted) {
    ++expected_;
  } else {
    objects_.incoming.release(*slot);
  }
  return posted;
}

error session_core::too_many(std::string_view call) const {
  return error::from_errno(
      ENOBUFS, call, name_,
      "session_options::max_messages advertisement messages are outstanding; raise max_messages, "
      "or wait for completions");
}

result<void> session_core::post_message(const bringup::advertisement_message& message,
                                        std::uint64_t mark) {
  const auto slot = objects_.outgoing.take();
  if (!slot) return too_many("advertise");
  std::ranges::copy(message, objects_.outgoing.bytes(*slot).begin());
  send_batch<rc, 1> batch(queue_);
  batch.send({.id = mark | *slot, .signaled = true}, objects_.outgoing.slice(*slot));
  const auto posted = batch.submit();
  if (posted) return {};
  objects_.outgoing.release(*slot);
  return posted.error();
}

template <class Change>
result<void> session_core::post_change(std::string_view call, Change change) {
  VERBENA_TRY_VOID(check_post(call, 0));
  // Processes completions before the copy is made, because received messages change the table.
  if (!objects_.outgoing.has_free()) VERBENA_TRY_VOID(drain());
  auto changed = book_;
  VERBENA_TRY(const bringup::advertisement_message message, change(changed));
  VERBENA_TRY_VOID(post_message(message, library_mark));
  book_ = std::move(changed);
  return {};
}

result<std::uint32_t> session_core::advertise(const local_buffer& buffer, access_flags access,
                                              std::string_view name) {
  const auto& region = buffer.region();
  if (region.native()->pd != objects_.domain.native())
    return error::invalid_argument("advertise", name_,
                                   "the buffer belongs to another protection domain; share one "
                                   "with session_options::domain");
  if (!region.access().contains(access))
    return error::invalid_argument("advertise", name_,
                                   fmt::format("the buffer was registered with {}, which does not "
                                               "permit {}; register it with these access flags",
                                               to_string(region.access()), to_string(access)));
  const held lock(mutex_);
  std::uint32_t number = 0;
  VERBENA_TRY_VOID(post_change(
      "advertise",
      [&](bringup::advertisement_table& book) -> result<bringup::advertisement_message> {
        bringup::advertisement_message message{};
        VERBENA_TRY(number, book.advertise(region.remote(), access, name, message));
        return message;
      }));
  return number;
}

result<void> session_core::revoke(std::uint32_t number) {
  const held lock(mutex_);
  return post_change("revoke",
                     [&](bringup::advertisement_table& book) { return book.revoke(number); });
}

result<void> session_core::release(std::uint32_t number) {
  const held lock(mutex_);
  return post_change("release",
                     [&](bringup::advertisement_table& book) { return book.release(number); });
}

bool session_core::is_advertised(std::uint32_t number) const {
  const held lock(mutex_);
  return book_.is_advertised(number);
}

bool session_core::is_usable(const remote_buffer& buffer) const {
  const held lock(mutex_);
  return buffer.number == 0 || book_.is_usable(buffer.number);
}

std::optional<remote_buffer> session_core::find(std::string_view name) const {
  const held lock(mutex_);
  return book_.find(name);
}

void session_core::take_message(const completion& done, std::uint32_t slot) {
  --expected_;
  if (done.ok()) {
    const auto came = objects_.incoming.bytes(slot);
    auto news = book_.take(came.first(std::min<std::size_t>(done.byte_length(), came.size())));
    if (!news) {
      protocol_errors_.push_back(std::move(news).error());
    } else if (news->kind != bringup::advertisement_kind::advertised) {
      updates_.push_back(*news);
    }
  }
  objects_.incoming.release(slot);
}

error session_core::no_message(text_argument call) {
  if (protocol_errors_.empty())
    return error::from_errno(ENOMSG, call, name_,
                             "no receive for an advertisement message is outstanding; call "
                             "expect_advertisement() for each of them");
  auto first = std::move(protocol_errors_.front());
  protocol_errors_.pop_front();
  return first;
}

result<void> session_core::wait_message(held& lock, condition ready, deadline until,
                                        text_argument call) {
  const auto found = [&] { return ready() || !protocol_errors_.empty(); };
  VERBENA_TRY(const bool in_time,
              wait(lock, [&] { return found() || expected_ == 0 || is_ending(); }, until));
  if (!in_time)
    return error::timed_out(call, name_, "no advertisement message of the peer arrived in time");
  if (found() || !is_ending()) return {};
  VERBENA_TRY_VOID(learn_reason(lock, until));
  return *over_;
}

result<remote_buffer> session_core::wait_advertisement(deadline until) {
  held lock(mutex_);
  constexpr text_argument call = "wait_advertisement";
  VERBENA_TRY_VOID(wait_message(lock, [this] { return book_.pending() != 0; }, until, call));
  if (auto found = book_.next()) return *std::move(found);
  return no_message(call);
}

result<bringup::advertisement_update> session_core::wait_update(deadline until) {
  held lock(mutex_);
  constexpr text_argument call = "wait_update";
  VERBENA_TRY_VOID(wait_message(lock, [this] { return !updates_.empty(); }, until, call));
  if (updates_.empty()) return no_message(call);
  const auto first = updates_.front();
  updates_.pop_front();
  return first;
}

}  // namespace verbena::inline VERBENA_ABI::cm::detail
