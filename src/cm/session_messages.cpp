// SPDX-License-Identifier: MIT
// Messages about buffers.
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
    objects_.incoming.give_back(*slot);
  }
  return posted;
}

error session_core::too_many(std::string_view call) const {
  return error::from_errno(ENOBUFS, call, name_,
                           "as many messages about buffers are outstanding as "
                           "session_options::max_messages says");
}

result<void> session_core::post_message(const bringup::advertisement_message& message,
                                        std::uint64_t mark) {
  auto slot = objects_.outgoing.take();
  if (!slot) {
    VERBENA_TRY_VOID(drain());
    slot = objects_.outgoing.take();
  }
  if (!slot) return too_many("advertise");
  std::ranges::copy(message, objects_.outgoing.bytes(*slot).begin());
  send_batch<rc, 1> batch(queue_);
  batch.send({.id = mark | *slot, .signaled = true}, objects_.outgoing.slice(*slot));
  const auto posted = batch.submit();
  if (posted) return {};
  objects_.outgoing.give_back(*slot);
  return posted.error();
}

template <class Change>
result<void> session_core::tell(std::string_view call, Change change) {
  VERBENA_TRY_VOID(check_post(call, 0));
  auto changed = book_;
  VERBENA_TRY(const bringup::advertisement_message message, change(changed));
  VERBENA_TRY_VOID(post_message(message, library_mark));
  book_ = std::move(changed);
  return {};
}

result<std::uint32_t> session_core::advertise(const local_buffer& buffer, access_flags rights,
                                              std::string_view name) {
  const auto& region = buffer.region();
  if (region.native()->pd != objects_.domain.native())
    return error::invalid_argument("advertise", name_,
                                   "the buffer is of another protection domain: let the sessions "
                                   "share one by session_options::domain");
  if (!region.rights().contains(rights))
    return error::invalid_argument("advertise", name_,
                                   "the buffer was registered with " + to_string(region.rights()) +
                                       ", which does not let the peer " + to_string(rights));
  const held lock(mutex_);
  std::uint32_t number = 0;
  VERBENA_TRY_VOID(
      tell("advertise",
           [&](bringup::advertisement_book& book) -> result<bringup::advertisement_message> {
             bringup::advertisement_message message{};
             VERBENA_TRY(number, book.advertise(region.remote(), rights, name, message));
             return message;
           }));
  return number;
}

result<void> session_core::revoke(std::uint32_t number) {
  const held lock(mutex_);
  return tell("revoke", [&](bringup::advertisement_book& book) { return book.revoke(number); });
}

result<void> session_core::give_back(std::uint32_t number) {
  const held lock(mutex_);
  return tell("give_back",
              [&](bringup::advertisement_book& book) { return book.give_back(number); });
}

bool session_core::is_lent(std::uint32_t number) const {
  const held lock(mutex_);
  return book_.is_lent(number);
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
      misunderstood_.push_back(std::move(news).error());
    } else if (news->kind != bringup::advertisement_kind::advertised) {
      news_.push_back(*news);
    }
  }
  objects_.incoming.give_back(slot);
}

error session_core::no_message(std::string_view call) {
  if (misunderstood_.empty())
    return error::from_errno(ENOMSG, call, name_,
                             "no receive for messages about buffers is outstanding: each of them "
                             "takes one expect_advertisement()");
  auto first = std::move(misunderstood_.front());
  misunderstood_.pop_front();
  return first;
}

result<void> session_core::wait_message(held& lock, const std::function<bool()>& ready,
                                        deadline until, std::string_view call) {
  const auto found = [&] { return ready() || !misunderstood_.empty(); };
  VERBENA_TRY(const bool in_time,
              wait(lock, [&] { return found() || expected_ == 0 || is_ending(); }, until));
  if (!in_time) return error::timed_out(call, name_, "the peer sent no such message");
  if (found() || !is_ending()) return {};
  VERBENA_TRY_VOID(learn_reason(lock, until));
  return *over_;
}

result<remote_buffer> session_core::wait_advertisement(deadline until) {
  held lock(mutex_);
  constexpr auto call = "wait_advertisement";
  VERBENA_TRY_VOID(wait_message(lock, [this] { return book_.pending() != 0; }, until, call));
  if (auto found = book_.next()) return *std::move(found);
  return no_message(call);
}

result<bringup::advertisement_news> session_core::wait_news(deadline until) {
  held lock(mutex_);
  constexpr auto call = "wait_news";
  VERBENA_TRY_VOID(wait_message(lock, [this] { return !news_.empty(); }, until, call));
  if (news_.empty()) return no_message(call);
  const auto first = news_.front();
  news_.pop_front();
  return first;
}

}  // namespace verbena::inline VERBENA_ABI::cm::detail
