// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/wire/simulation/traffic.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/unit/softdev/wire/simulation/host.hpp"

namespace verbena::softdev::wire::simulation {
namespace {

constexpr std::size_t most_bytes = 256 * 1024;
constexpr time_ns longest_pause = 60'000;
constexpr time_ns longest_receiver_delay = 300'000;
constexpr time_ns longest_until_deregistered = 300'000;
constexpr std::uint32_t most_responses_until_deregistered = 30;

std::uint32_t random_length(std::uint32_t mtu, random_source& random) {
  switch (random.below(8)) {
    case 0:
      return random.below(9);
    case 1:
      return mtu * random.below(5);
    case 2:
      return mtu * random.below(5) + 1;
    case 3:
      return mtu * (1 + random.below(4)) - 1;
    case 4:
      return random.below(mtu * 40);
    default:
      return random.below(mtu * 3);
  }
}

opcode random_opcode(random_source& random) {
  constexpr std::array choices{
      opcode::send,       opcode::send,         opcode::send_with_imm,
      opcode::rdma_write, opcode::rdma_write,   opcode::rdma_write_with_imm,
      opcode::rdma_read,  opcode::compare_swap, opcode::fetch_add};
  return choices[random.below(choices.size())];
}

template <class Judge>
void poll_all(completion_queue& queue, Judge judge) {
  std::array<completion, 16> some;
  for (std::size_t count = queue.poll(some); count > 0; count = queue.poll(some))
    for (const completion& each : std::span(some).first(count)) judge(each);
}

}  // namespace

traffic::traffic(end& from, end& to, std::uint32_t mtu, random_source& random, promise promised)
    : from_(from),
      to_(to),
      promised_(promised),
      longest_unreliable_(5 * mtu),
      seed_(random.next()),
      source_(from.home(), most_bytes),
      target_(to.home(), most_bytes),
      receives_(to.home(), most_bytes),
      word_(to.home(), sizeof(std::uint64_t)),
      originals_(from.home(), most_planned * sizeof(std::uint64_t)) {
  plan(mtu, random);
}

std::uint64_t traffic::pattern_of(std::size_t index) const noexcept {
  return seed_ + index * 0x1000'0000'0001U;
}

void traffic::plan(std::uint32_t mtu, random_source& random) {
  const std::uint32_t count = 1 + random.below(most_planned - 1);
  const bool busy = random.chance(500);
  time_ns when = now;
  time_ns receive_at = now;
  for (std::uint32_t i = 0; i < count; ++i) {
    planned made;
    made.request.wr_id = i;
    made.request.opcode = random_opcode(random);
    if (!is_reliable()) {
      constexpr std::array choices{opcode::send_with_imm, opcode::rdma_write_with_imm,
                                   opcode::rdma_write};
      made.request.opcode = choices[random.below(choices.size())];
    }
    const bool atomic = is_atomic(made.request.opcode);
    made.length = atomic ? 8 : random_length(mtu, random);
    if (!is_reliable()) made.length %= longest_unreliable_;
    if (bytes_ + made.length > most_bytes) break;
    made.offset = bytes_;
    bytes_ += (made.length + 7U) & ~std::size_t{7};
    if (random.chance(700) || i + 1 == count) made.request.flags |= send_flag::signaled;
    if (random.chance(100)) made.request.flags |= send_flag::fence;
    if (random.chance(200)) made.request.flags |= send_flag::solicited;
    made.request.immediate = is_reliable() ? static_cast<std::uint32_t>(random.next()) : i;
    made.request.remote_key = target_.key();
    made.request.remote_address = target_.address() + made.offset;
    if (atomic) {
      made.request.remote_key = word_.key();
      made.request.remote_address = word_.address();
      made.word = last_word_;
      const std::uint64_t operand = random.next();
      const bool adds = made.request.opcode == opcode::fetch_add;
      made.request.compare_or_add = adds ? operand : last_word_;
      made.request.swap = operand;
      last_word_ = adds ? last_word_ + operand : operand;
    } else if (made.request.opcode == opcode::rdma_read) {
      target_.fill(made.offset, made.length, pattern_of(i));
    } else {
      source_.fill(made.offset, made.length, pattern_of(i));
    }
    if (!busy) when += random.next() % longest_pause;
    made.post_at = when;
    plan_.push_back(made);
    if (!consumes_receive(made.request.opcode)) continue;
    if (random.chance(200)) receive_at += random.next() % longest_receiver_delay;
    arrivals_.push_back({i, receive_at});
  }
  if (!plan_.empty()) plan_.back().request.flags |= send_flag::signaled;
}

void traffic::refuse(random_source& random) {
  const std::uint32_t first = random.below(most_planned);
  const time_ns time = now + random.next() % longest_until_deregistered;
  const std::uint32_t responses = 1 + random.below(most_responses_until_deregistered);
  switch (random.below(3)) {
    case 0:
      deregister_at_ = time;
      return;
    case 1:
      responses_left_ = responses;
      return;
    default:
      break;
  }
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    const std::size_t index = (first + i) % plan_.size();
    if (!accesses_target(index) && !is_atomic(plan_[index].request.opcode)) continue;
    plan_[index].request.remote_key ^= 1U;
    plan_[index].request.flags |= send_flag::signaled;
    wrong_key_ = index;
    return;
  }
}

void traffic::note_answer(const packet& what) noexcept {
  const operation kind = operation_of(what.opcode);
  const bool counts = what.destination_qpn == from_.pair().number() && responses_left_ > 0 &&
                      kind >= operation::read_response_first &&
                      kind <= operation::read_response_only;
  if (counts && --responses_left_ == 0) deregister_at_ = now;
}

bool traffic::accesses_target(std::size_t index) const noexcept {
  const planned& which = plan_[index];
  return (is_write(which.request.opcode) || which.request.opcode == opcode::rdma_read) &&
         which.length > 0;
}

bool traffic::may_be_refused(std::size_t index) const noexcept {
  return index == wrong_key_ || (deregistered_ && accesses_target(index));
}

bool traffic::may_fail_first(completion_status status, std::size_t index) const noexcept {
  if (status == completion_status::remote_access_error) return may_be_refused(index);
  // If the other direction has failed first, all requests of this direction are flushed.
  return promised_ == promise::ends &&
         (status == completion_status::retry_exceeded || status == completion_status::flushed);
}

void traffic::violate(const std::string& what, std::size_t index) {
  if (!violation_.empty()) return;
  violation_ = what + ", request " + std::to_string(index);
  if (index < plan_.size())
    violation_ += " (opcode " + std::to_string(static_cast<unsigned>(plan_[index].request.opcode)) +
                  ", " + std::to_string(plan_[index].length) + " bytes)";
}

time_ns traffic::post() {
  if (deregister_at_ <= now) {
    to_.home().deregister_region(target_.key());
    deregister_at_ = never;
    deregistered_ = true;
  }
  while (receives_posted_ < arrivals_.size() && arrivals_[receives_posted_].post_at <= now) {
    if (!to_.post_receive(receives_posted_, receive_slice(receives_posted_)))
      violate("post_receive failed", receives_posted_);
    ++receives_posted_;
  }
  while (posted_ < plan_.size() && plan_[posted_].post_at <= now) post_request(posted_++);
  time_ns next = deregister_at_;
  if (receives_posted_ < arrivals_.size())
    next = std::min(next, arrivals_[receives_posted_].post_at);
  if (posted_ < plan_.size()) next = std::min(next, plan_[posted_].post_at);
  return next;
}

/// Over UC, the message that arrives at a position is unknown in advance.
sge traffic::receive_slice(std::size_t position) noexcept {
  if (!is_reliable()) return receives_.slice(position * longest_unreliable_, longest_unreliable_);
  const planned& which = plan_[arrivals_[position].request];
  return receives_.slice(which.offset, which.length);
}

/// Posts a request with one to three scatter/gather elements.
void traffic::post_request(std::size_t index) {
  const planned& which = plan_[index];
  std::vector<sge> data;
  if (is_atomic(which.request.opcode)) {
    data = {originals_.slice(index * sizeof(std::uint64_t), sizeof(std::uint64_t))};
  } else {
    const std::uint32_t parts = 1 + static_cast<std::uint32_t>(pattern_of(index) >> 9U) % 3;
    std::uint32_t begin = 0;
    for (std::uint32_t i = 1; i <= parts; ++i) {
      const std::uint32_t end_of_part = i == parts ? which.length : which.length / parts * i;
      data.push_back(source_.slice(which.offset + begin, end_of_part - begin));
      begin = end_of_part;
    }
  }
  if (!from_.post(which.request, data)) violate("post failed", index);
}

void traffic::poll() {
  // Receives first: a request must not complete at the sender before its effect is visible at the
  // receiver.
  poll_all(to_.received(), [this](const completion& each) { judge_received(each); });
  poll_all(from_.sent(), [this](const completion& each) { judge_sent(each); });
}

void traffic::judge_sent(const completion& what) {
  const std::size_t index = what.wr_id;
  if (index < completed_ || index >= posted_) return violate("completion of no request", index);
  if (what.status == completion_status::success) {
    if (failed_) violate("success after a failure", index);
    if (wrong_key_ <= index) violate("success of a request with a wrong key", wrong_key_);
    for (; completed_ < index; ++completed_) {
      if (plan_[completed_].request.flags.contains(send_flag::signaled))
        violate("completion missing or out of order", completed_);
      verify_effect(completed_);
    }
    if (!plan_[index].request.flags.contains(send_flag::signaled))
      violate("completion of an unsignaled request", index);
    verify_effect(index);
    completed_ = index + 1;
    return;
  }
  if (!failed_) {
    for (; completed_ < index; ++completed_) {
      if (plan_[completed_].request.flags.contains(send_flag::signaled))
        violate("completion missing before a failure", completed_);
      verify_effect(completed_);
    }
  }
  const bool expected =
      failed_ ? what.status == completion_status::flushed : may_fail_first(what.status, index);
  if (!expected) violate("status " + std::to_string(static_cast<unsigned>(what.status)), index);
  if (what.status == completion_status::remote_access_error) ++refused_;
  if (index != completed_) violate("failed completion out of order", index);
  failed_ = true;
  completed_ = index + 1;
}

void traffic::judge_received(const completion& what) {
  const std::size_t position = what.wr_id;
  if (position != receives_completed_) return violate("receive out of order", position);
  ++receives_completed_;
  if (!is_reliable()) return judge_unreliable(what, position);
  const std::size_t index = arrivals_[position].request;
  const planned& which = plan_[index];
  if (what.status != completion_status::success) {
    // A refused WRITE with immediate data has consumed the receive request.
    const bool refused = what.status == completion_status::local_access_error &&
                         !receiver_failed_ && may_be_refused(index);
    if (!refused && (promised_ == promise::reliable || what.status != completion_status::flushed))
      violate("receive with status " + std::to_string(static_cast<unsigned>(what.status)), index);
    receiver_failed_ = true;
    return;
  }
  if (receiver_failed_) violate("receive succeeds after a failure", index);
  if (index >= posted_) violate("receive before the request", index);
  if (what.byte_count != which.length) violate("received length", index);
  const bool immediate = has_immediate(which.request.opcode);
  if (((what.flags & completion_with_imm) != 0) != immediate ||
      (immediate && what.immediate != which.request.immediate))
    violate("immediate data", index);
  if (is_send(which.request.opcode) &&
      !receives_.holds(which.offset, which.length, pattern_of(index)))
    violate("received bytes", index);
  verify_writes_before(index + 1);
}

/// The immediate data contain the number of the request.
void traffic::judge_unreliable(const completion& what, std::size_t position) {
  const std::size_t index = what.immediate;
  if (what.status != completion_status::success || index >= posted_ ||
      !consumes_receive(plan_[index].request.opcode) || what.byte_count != plan_[index].length)
    return violate("received message is not one that was sent", index);
  if (promised_ == promise::once_in_order && index < next_received_)
    violate("received twice or out of order", index);
  next_received_ = index + 1;
  const planned& which = plan_[index];
  const bool holds =
      is_send(which.request.opcode)
          ? receives_.holds(position * longest_unreliable_, which.length, pattern_of(index))
          : target_.holds(which.offset, which.length, pattern_of(index));
  if (!holds) violate("bytes of an unreliable message", index);
}

void traffic::verify_writes_before(std::size_t index) {
  for (std::size_t i = 0; i < index; ++i)
    if (is_write(plan_[i].request.opcode)) verify_effect(i);
}

/// Checks that a completed request was executed completely and exactly once.
void traffic::verify_effect(std::size_t index) {
  planned& which = plan_[index];
  if (which.verified || !is_reliable()) return;
  which.verified = true;
  const std::uint64_t pattern = pattern_of(index);
  if (is_atomic(which.request.opcode)) {
    std::uint64_t original = 0;
    std::memcpy(&original, originals_.data() + index * sizeof original, sizeof original);
    if (original != which.word) violate("result of an atomic operation", index);
  } else if (which.request.opcode == opcode::rdma_read) {
    if (!source_.holds(which.offset, which.length, pattern)) violate("bytes of a READ", index);
  } else if (is_write(which.request.opcode)) {
    if (!target_.holds(which.offset, which.length, pattern)) violate("bytes of a WRITE", index);
  } else if (!receives_.holds(which.offset, which.length, pattern)) {
    violate("bytes of a SEND", index);
  }
}

bool traffic::finished() const noexcept {
  if (posted_ < plan_.size() || completed_ < plan_.size()) return false;
  if (!is_reliable()) return true;
  return receives_posted_ == arrivals_.size() &&
         (receives_completed_ == arrivals_.size() || (failed_ && !receiver_failed_));
}

std::string traffic::missing() const {
  return "completed " + std::to_string(completed_) + " of " + std::to_string(plan_.size()) +
         " requests, " + std::to_string(receives_completed_) + " of " +
         std::to_string(arrivals_.size()) + " receives";
}

void traffic::judge_end() {
  poll();
  std::uint64_t word = 0;
  std::memcpy(&word, word_.data(), sizeof word);
  if (is_reliable() && !failed_ && word != last_word_)
    violate("the word of atomic operations", plan_.size());
}

}  // namespace verbena::softdev::wire::simulation
