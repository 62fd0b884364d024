// SPDX-License-Identifier: MIT
// Posting of messages, receives and credits.
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/channel/message_core.hpp"
#include "src/channel/part_length.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);
// Polls without credit before the first probe of the peer, and at most between two probes.
constexpr std::uint32_t first_probe = 256;
constexpr std::uint32_t rarest_probe = 65536;

send_result refuse(send_refusal why) noexcept {
  switch (why) {
    case send_refusal::too_long:
      return send_result::refuse(why, EMSGSIZE);
    case send_refusal::foreign_domain:
      return send_result::refuse(why, EINVAL);
    case send_refusal::ended:
      return send_result::refuse(why, ENOTCONN);
    default:
      return send_result::refuse(why, EAGAIN);
  }
}

}  // namespace

bool message_core::has_credit() noexcept {
  if (sent_ < credit_) return true;
  // The peer posted the receives before it wrote the word: they precede any later message.
  const std::uint64_t granted = network_order(own_.word.load());
  if (granted <= credit_) return false;
  if (granted - sent_ > peer_receives_) {
    ++counters_.bad_credits;
    return false;
  }
  credit_ = granted;
  return true;
}

send_refusal message_core::missing() noexcept {
  if (!sends_.has_place(line_kind::message)) return send_refusal::queue_full;
  if (!uses_credits_ || has_credit()) return send_refusal::none;
  lacks_credit_ = true;
  return send_refusal::no_credit;
}

send_refusal message_core::refusal_for(std::size_t bytes) {
  if (has_ended() || !queue_) return send_refusal::ended;
  if (bytes > message_bytes_) return send_refusal::too_long;
  if (missing() == send_refusal::none) return send_refusal::none;
  progress();
  return has_ended() ? send_refusal::ended : missing();
}

template <class Data>
send_result message_core::post_message(const Data& data, buffer&& held) {
  const bool signaled = sends_.must_signal(line_kind::message);
  auto batch = queue_->start_send<1>();
  batch.send({.id = sends_.next_id(), .signaled = signaled}, data);
  if (const post_status status = batch.submit(); !status) [[unlikely]]
    return send_result::refuse(send_refusal::verb, status.code());
  sends_.posted(line_kind::message, signaled, std::move(held));
  lacks_credit_ = false;
  polls_without_credit_ = 0;
  counters_.signaled += signaled ? 1 : 0;
  return send_result::of(++sent_);
}

send_result message_core::send(std::span<const std::byte> bytes) {
  if (const send_refusal why = refusal_for(bytes.size()); why != send_refusal::none)
    return refuse(why);
  const bool is_inline = !bytes.empty() && bytes.size() <= inline_bytes_;
  if (bytes.empty() || is_inline) {
    const auto outcome = is_inline ? post_message(inline_data(bytes), {})
                                   : post_message(std::span<const local_slice>(), {});
    if (outcome) counters_.inlined += 1;
    return outcome;
  }
  auto copy = take_buffer();
  if (!copy) return refuse(has_ended() ? send_refusal::ended : send_refusal::no_buffer);
  std::memcpy(copy->bytes().data(), bytes.data(), bytes.size());
  const auto slice = copy->slice(0, bytes.size());
  const auto outcome = post_message(slice, std::move(*copy));
  if (outcome) counters_.copied += 1;
  return outcome;
}

send_result message_core::send(buffer& memory, const buffer_slice& part) {
  VERBENA_ASSERT(!memory.empty(), "an empty or moved-from buffer was sent");
  const std::size_t length = part_length(memory, part);
  if (memory.native_pd() != own_.domain.native()) return refuse(send_refusal::foreign_domain);
  if (const send_refusal why = refusal_for(length); why != send_refusal::none) return refuse(why);
  if (length == 0) return post_message(std::span<const local_slice>(), std::move(memory));
  const auto slice = memory.slice(part.offset, length);
  return post_message(slice, std::move(memory));
}

std::optional<buffer> message_core::take_buffer() {
  if (auto found = own_.sends.take(message_bytes_)) return found;
  end_silence();
  progress();
  return own_.sends.take(message_bytes_);
}

std::optional<received_message> message_core::receive() {
  if (!receives_.has_arrived()) progress();
  if (!receives_.has_arrived()) return std::nullopt;
  auto [memory, length] = receives_.next();
  if (!has_ended()) tend();
  return received_message(std::move(memory), length, ++taken_);
}

void message_core::end_silence() {
  if (!queue_ || has_ended() || !sends_.has_silent_tail() || !sends_.has_place(line_kind::notice))
    return;
  ++counters_.tail_writes;
  post_notice(true);
}

void message_core::post_notice(bool signaled) {
  signaled = signaled || sends_.must_signal(line_kind::notice);
  const std::uint64_t count = network_order(posted_);
  const send_request request{.id = sends_.next_id(), .signaled = signaled};
  auto batch = queue_->start_send<1>();
  const auto bytes = std::as_bytes(std::span(&count, 1));
  if (inline_bytes_ >= word_bytes) {
    batch.write(request, inline_data(bytes), peer_word_);
  } else {
    // No notice in flight reads this place: there are as many places as notices.
    const std::size_t offset = notices_ % notice_places * word_bytes;
    std::memcpy(own_.counts.bytes().data() + offset, bytes.data(), word_bytes);
    batch.write(request, own_.counts.slice(offset, word_bytes), peer_word_);
  }
  if (const post_status status = batch.submit(); !status) [[unlikely]]
    return fail_posting(status.code());
  sends_.posted(line_kind::notice, signaled, {});
  counters_.signaled += signaled ? 1 : 0;
  ++notices_;
  granted_ = posted_;
}

void message_core::grant_credits() {
  const std::uint64_t ungranted = posted_ - granted_;
  if (!uses_credits_ || ungranted == 0) return;
  const std::uint64_t left = granted_ > received_ ? granted_ - received_ : 0;  // unused credits
  const std::uint64_t quarter = std::max(1U, receives_.capacity() / 4);
  if ((ungranted < quarter && ungranted < left) || !sends_.has_place(line_kind::notice)) return;
  ++counters_.credit_writes;
  post_notice(false);
}

// When all messages have arrived, only a request can show that the peer is dead. The probe is a
// write of the present count, at growing intervals.
void message_core::probe_for_credit() {
  const std::uint32_t polls = ++polls_without_credit_;
  const bool is_due =
      polls % rarest_probe == 0 || (polls >= first_probe && std::has_single_bit(polls));
  if (!is_due || !queue_ || has_ended() || !sends_.has_place(line_kind::notice)) return;
  ++counters_.credit_probes;
  post_notice(true);
}

void message_core::tend() {
  if (receives_.is_worth_posting()) replenish();
  if (!has_ended()) grant_credits();
}

void message_core::replenish() {
  if (const post_status posted = post_receives(*queue_); !posted) fail_posting(posted.code());
}

post_status message_core::post_receives(queue_pair<rc>& queue) {
  constexpr std::uint32_t most = 16;
  std::array<std::uint32_t, most> places;
  while (receives_.missing() != 0) {
    auto batch = queue.start_receive<most>();
    std::uint32_t count = 0;
    for (; count < most && receives_.missing() != 0; ++count) {
      auto memory = own_.receives.take(message_bytes_);
      if (!memory) break;
      places[count] = receives_.hold(std::move(*memory));
      batch.receive({.id = receive_bit | places[count]},
                    receives_.at(places[count]).slice(0, message_bytes_));
    }
    const bool is_empty = count < most && receives_.missing() != 0;
    if (is_empty && !pool_is_empty_) ++counters_.empty_pools;
    pool_is_empty_ = is_empty;
    if (count == 0) return {};
    ++counters_.receive_doorbells;
    const post_status status = batch.submit();
    const std::uint32_t accepted = status ? count : status.accepted();
    posted_ += accepted;
    for (std::uint32_t i = accepted; i < count; ++i) receives_.release(places[i]);
    if (!status || is_empty) return status;
  }
  return {};
}

void message_core::fail_posting(int code) noexcept {
  fail({.part = failed_part::posting, .code = code});
  if (auto moved = queue_->modify(queue_pair_attributes().set_state(queue_pair_state::error));
      !moved)
    log(log_level::warning, moved.error().message());
}

}  // namespace verbena::inline VERBENA_ABI::detail
