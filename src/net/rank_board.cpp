// SPDX-License-Identifier: MIT
#include "src/net/rank_board.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "src/net/board_layout.hpp"
#include "src/net/board_turn.hpp"
#include "src/net/message_word.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

using board_layout::acknowledged_at;
using board_layout::arrival_at;
using board_layout::board_bytes;
using board_layout::entered_at;
using board_layout::entered_words;
using board_layout::failure_at;
using board_layout::seen_at;
using board_layout::slots;
using board_layout::state_at;
using board_layout::word;

// Returns the time at which an operation gives up, before its deadline, to find the missing ranks.
deadline time_to_give_up(deadline until) {
  constexpr std::chrono::nanoseconds most = std::chrono::milliseconds(50);
  if (until.is_never()) return until;
  return deadline::at(until.when() -
                      std::min<std::chrono::nanoseconds>(until.time_left() / 8, most));
}

}  // namespace

rank_board::rank_board(memory_region memory, std::uint32_t rank, std::uint32_t size)
    : memory_(std::move(memory)),
      rank_(rank),
      size_(size),
      member_count_(size),
      is_member_(size, true),
      pairs_(size),
      posted_(std::size_t{size} + std::size_t{4} * slots),
      late_reads_(size) {
  for (auto& each : late_reads_) each.ended = true;
  sent_to_.reserve(size);
  received_from_.reserve(size);
}

result<rank_board> rank_board::create(const protection_domain& domain, std::uint32_t rank,
                                      std::uint32_t size) {
  VERBENA_TRY(auto memory,
              domain.allocate(board_bytes(size),
                              access::local_write | access::remote_read | access::remote_write));
  return rank_board(std::move(memory), rank, size);
}

result<void> rank_board::connect(std::vector<remote_region> boards,
                                 std::span<const std::uint32_t> members) {
  set_members(members);
  for (std::size_t each = 0; each < boards.size(); ++each)
    if (is_member_[each] && boards[each].length() < board_bytes(size_))
      return error::protocol("join", {},
                             fmt::format("the board of rank {} has {} bytes, not {}", each,
                                         boards[each].length(), board_bytes(size_)));
  boards_ = std::move(boards);
  return {};
}

registered_bytes rank_board::own(std::size_t offset, std::size_t bytes) const {
  return registered_bytes(source(memory_, offset, bytes));
}

result<void> rank_board::check(operation_name name, std::span<const std::uint32_t> ranks) const {
  const auto refuse = [&](const std::string& why) {
    return error::invalid_argument(name.function, fmt::format("rank {}", rank_), why);
  };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] >= size_)
      return refuse(
          fmt::format("rank {} is not less than the size of the group, {}", ranks[i], size_));
    if (!is_member_[ranks[i]])
      return refuse(fmt::format("rank {} is no longer a member of the group", ranks[i]));
    if (i != 0 && ranks[i] == ranks[i - 1])
      return refuse(fmt::format("rank {} occurs twice in the list", ranks[i]));
    if (i != 0 && ranks[i] < ranks[i - 1])
      return refuse(fmt::format("the ranks are not in ascending order: {} follows {}", ranks[i],
                                ranks[i - 1]));
  }
  if (!std::ranges::binary_search(ranks, rank_))
    return refuse(fmt::format("the list of ranks must contain the calling rank, {}", rank_));
  return {};
}

result<collective> rank_board::enter(const participants& of, operation_name name,
                                     const operation_values& what) {
  const auto ranks = of.ranks;
  if (failure_) return *failure_;
  if (first_turn_ != nullptr && first_turn_ != of.turn)
    return error::invalid_argument(
        name.function, fmt::format("rank {}", rank_),
        "an operation in steps of this rank is in progress or queued; await it first");
  VERBENA_TRY_VOID(check(name, ranks));
  operation_tag hash;
  hash.mix(epoch_);
  for (const std::uint32_t each : ranks) hash.mix(each);
  const std::uint32_t set = hash.value();
  for (const std::uint64_t each :
       {static_cast<std::uint64_t>(what.code), what.bytes, word_of(what.root, what.element_bytes)})
    hash.mix(each);
  const std::uint32_t tag = tag_with_kinds(hash.value(), what.element, what.operation);
  describe(what, ranks.size(), tag, set);
  sent_to_.clear();
  received_from_.clear();
  return collective{
      .channels = of.channels,
      .client = of.client,
      .name = name,
      .ranks = ranks,
      .until = of.until,
      .give_up = time_to_give_up(of.until),
      .tag = tag,
      .entered = publish(ranks, set),
      .index = static_cast<std::size_t>(std::ranges::lower_bound(ranks, rank_) - ranks.begin()),
      .element_bytes = what.element_bytes,
      .next_check = deadline::after(time_to_check_ranks)};
}

std::size_t collective::most_bytes() const noexcept {
  return board_layout::slot_bytes / element_bytes * element_bytes;
}

board_turn::board_turn(rank_board& of) noexcept : board_(of) {
  board_turn** last = &of.first_turn_;
  while (*last != nullptr) last = &(*last)->next_;
  *last = this;
}

board_turn::~board_turn() {
  board_turn** link = &board_.first_turn_;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

// Stores the number of operations with these ranks that this rank has entered. Other ranks can read
// the number.
std::uint64_t rank_board::publish(std::span<const std::uint32_t> ranks, std::uint32_t set) {
  const std::uint64_t entered = word_of(set, ++entered_[set]);
  std::size_t place = 0;  // the word of operations with all members
  if (ranks.size() != member_count_) {
    for (place = 1; place < entered_words; ++place)
      if (tag_of(load(entered_at + place * word)) == set) break;
    if (place == entered_words) place = 1 + subsets_++ % (entered_words - 1);
  }
  store(entered_at + place * word, entered);
  return entered;
}

// A rank with a greater number has entered the operation and left it.
bool rank_board::has_entered(const collective& in, std::uint32_t rank) const {
  for (std::size_t place = 0; place < entered_words; ++place) {
    const std::uint64_t seen = load(seen_at(rank, size_) + place * word);
    if (tag_of(seen) == tag_of(in.entered) && seen != 0)
      return !is_before(number_of(seen), number_of(in.entered));
  }
  return false;
}

void rank_board::clear(std::uint32_t epoch, std::span<const std::uint32_t> members) {
  epoch_ = epoch;
  // Numbers differ between epochs, so a late word of another epoch does not match.
  const std::uint32_t first = epoch << 24U;
  for (std::uint32_t each = 0; each < size_; ++each) {
    for (std::uint32_t slot = 0; slot < slots; ++slot) store(arrival_at(each, slot), 0);
    store(acknowledged_at(each), first);
    store(state_at(each), 0);
    pairs_[each] = {
        .sent = first, .acknowledged_by_peer = first, .received = first, .acknowledged = first};
  }
  for (std::size_t place = 0; place < entered_words; ++place) store(entered_at + place * word, 0);
  store(failure_at, 0);
  entered_.clear();
  subsets_ = 0;
  set_members(members);
}

void rank_board::stop(error why) {
  failure_ = std::move(why);
  awaits_agreement_ = false;
}

void rank_board::stop_for_agreement(error why) {
  if (!awaits_agreement_) earlier_failure_ = failure_;
  failure_ = std::move(why);
  awaits_agreement_ = true;
}

void rank_board::resume() {
  awaits_agreement_ = false;
  failure_ = std::exchange(earlier_failure_, std::nullopt);
}

void rank_board::start(std::span<const std::uint32_t> members) {
  set_members(members);
  failure_.reset();
  awaits_agreement_ = false;
  earlier_failure_.reset();
  is_reporting_ = false;
}

void rank_board::set_members(std::span<const std::uint32_t> members) {
  member_count_ = members.size();
  is_member_.assign(size_, false);
  for (const std::uint32_t each : members) is_member_[each] = true;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
