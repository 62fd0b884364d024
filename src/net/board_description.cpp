// SPDX-License-Identifier: MIT
// Errors of ranks that call different operations. Each rank keeps the arguments of its last
// operations on its board. If a message belongs to another operation, the receiver reads the
// arguments of the sender.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>

#include "src/net/board_layout.hpp"
#include "src/net/channel_access.hpp"
#include "src/net/message_word.hpp"
#include "src/net/rank_board.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

// The maximum time for reading the descriptions of a rank.
constexpr std::chrono::milliseconds time_to_read_descriptions{100};

// An operation, as it was described by a rank.
struct described_operation {
  operation_values values;
  std::uint32_t count;  // of ranks
  std::uint32_t set;    // tag of the ranks
};

const char* name_of(operation_code of) {
  switch (of) {
    case operation_code::barrier:
      return "barrier()";
    case operation_code::broadcast:
      return "broadcast()";
    case operation_code::all_gather:
      return "all_gather()";
    case operation_code::reduce:
      return "reduce()";
    case operation_code::all_reduce:
      return "all_reduce()";
    case operation_code::all_to_all:
      return "all_to_all()";
  }
  return "an unknown operation";
}

const char* name_of(element_kind of) {
  switch (of) {
    case element_kind::signed_integer:
      return " (signed integers)";
    case element_kind::unsigned_integer:
      return " (unsigned integers)";
    case element_kind::floating_point:
      return " (floating point)";
    case element_kind::other:
      break;
  }
  return "";
}

const char* name_of(operator_kind of) {
  constexpr std::array names{"an operator of the program",
                             "std::plus",
                             "std::multiplies",
                             "net::minimum",
                             "net::maximum",
                             "std::bit_and",
                             "std::bit_or",
                             "std::bit_xor"};
  const auto at = static_cast<std::size_t>(of);
  return at < names.size() ? names.at(at) : names.front();
}

std::string text_of(const described_operation& of) {
  const operation_values& with = of.values;
  const std::string call = fmt::format("{} of {} ranks", name_of(with.code), of.count);
  switch (with.code) {
    case operation_code::barrier:
      return fmt::format("{} with the algorithm {}", call,
                         to_string(static_cast<barrier_algorithm>(with.root)));
    case operation_code::broadcast:
      return fmt::format("{} with {} bytes and root {}", call, with.bytes, with.root);
    case operation_code::reduce:
    case operation_code::all_reduce:
      return fmt::format(
          "{} with {} bytes{}, elements of {} bytes{} and {}", call, with.bytes,
          with.code == operation_code::reduce ? fmt::format(", root {}", with.root) : "",
          with.element_bytes, name_of(with.element), name_of(with.operation));
    default:
      return fmt::format("{} with {} bytes", call, with.bytes);
  }
}

}  // namespace

void rank_board::describe(const operation_values& what, std::size_t count, std::uint32_t tag,
                          std::uint32_t set) {
  constexpr std::size_t bytes = board_layout::description_words * board_layout::word;
  const std::size_t at =
      board_layout::descriptions_at(size_) + described_++ % board_layout::descriptions * bytes;
  constexpr std::size_t word = board_layout::word;
  store(at, 0);  // no rank takes a half of a description for a whole one
  store(at + word,
        word_of(static_cast<std::uint32_t>(what.code), static_cast<std::uint32_t>(count)));
  store(at + 2 * word, what.bytes);
  store(at + 3 * word, word_of(what.root, what.element_bytes));
  store(at, word_of(tag, set));
}

bool rank_board::read_descriptions(collective& in, std::uint32_t from) {
  abandon(in);
  const auto limit = deadline::after(time_to_read_descriptions);
  const std::size_t into = board_layout::seen_descriptions_at(size_);
  if (!late_reads_[from].ended ||
      !post(in.channels,
            {verbena::detail::operation_kind::read, from,
             own(into, board_layout::description_bytes), board_layout::descriptions_at(size_)},
            limit))
    return false;
  ++in_flight_;
  const auto& waiter = posted_[in_flight_ - 1].waiter;
  const bool has_ended = channel_access::core_of(in.channels[from]).wait(waiter, limit);
  const bool is_read = has_ended && static_cast<bool>(waiter.result);
  abandon();
  return is_read;
}

error rank_board::fail_mixed_up(collective& in, std::uint32_t from, std::uint32_t theirs) {
  constexpr std::size_t word = board_layout::word;
  const auto find = [&](std::size_t begin,
                        std::uint32_t tag) -> std::optional<described_operation> {
    for (std::size_t each = 0; each < board_layout::descriptions; ++each) {
      const std::size_t at = begin + each * board_layout::description_words * word;
      const std::uint64_t first = load(at);
      if (first == 0 || tag_of(first) != tag) continue;
      const std::uint64_t what = load(at + word);
      const std::uint64_t with = load(at + 3 * word);
      return described_operation{.values = {.code = static_cast<operation_code>(tag_of(what)),
                                            .bytes = load(at + 2 * word),
                                            .root = tag_of(with),
                                            .element_bytes = number_of(with),
                                            .element = element_of(tag),
                                            .operation = operator_of(tag)},
                                 .count = number_of(what),
                                 .set = number_of(first)};
    }
    return std::nullopt;
  };
  const auto mine = find(board_layout::descriptions_at(size_), in.tag);
  const auto other = read_descriptions(in, from)
                         ? find(board_layout::seen_descriptions_at(size_), theirs)
                         : std::nullopt;
  constexpr const char* rule =
      "all ranks of an operation must call the same barriers and collective operations in the same "
      "order, with equal ranks, algorithms, lengths, roots, element types and operators";
  std::string why = fmt::format("rank {} is in another operation; {}", from, rule);
  if (mine && other)
    why = fmt::format(
        "rank {} called {}, but rank {} called {}{}; {}", from, text_of(*other), rank_,
        text_of(*mine),
        mine->count == other->count && mine->set != other->set ? ", with different ranks" : "",
        rule);
  return fail(
      in, from,
      error::invalid_argument(in.name.function, fmt::format("rank {}", rank_), std::move(why)));
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
