// SPDX-License-Identifier: MIT
// The algorithms of barriers.
#include <vector>

#include "src/net/collectives.hpp"

namespace verbena::inline VERBENA_ABI::net {

std::string to_string(barrier_algorithm of) {
  switch (of) {
    case barrier_algorithm::dissemination:
      return "dissemination";
    case barrier_algorithm::binary_tree:
      return "binary tree";
    case barrier_algorithm::central:
      return "central";
  }
  return "unknown (" + std::to_string(static_cast<int>(of)) + ")";
}

namespace detail {
namespace {

result<void> disseminate(rank_board& board, collective& in) {
  for (std::size_t distance = 1; distance < in.count(); distance *= 2) {
    const std::uint32_t to = in.at(in.index + distance);
    const std::uint32_t from = in.at(in.index + in.count() - distance);
    VERBENA_TRY_VOID(board.step(in, std::span(&to, 1), std::span(&from, 1)));
  }
  return {};
}

result<void> climb(rank_board& board, collective& in) {
  const std::size_t first = std::min(2 * in.index + 1, in.count());
  const auto children = in.ranks.subspan(first, std::min<std::size_t>(2, in.count() - first));
  VERBENA_TRY_VOID(board.step(in, {}, children));
  if (in.index != 0) {
    const std::uint32_t parent = in.ranks[(in.index - 1) / 2];
    VERBENA_TRY_VOID(board.step(in, std::span(&parent, 1), std::span(&parent, 1)));
  }
  return board.step(in, children, {});
}

result<void> meet_at_first(rank_board& board, collective& in) {
  if (in.index != 0) return board.step(in, in.ranks.first(1), in.ranks.first(1));
  VERBENA_TRY_VOID(board.step(in, {}, in.ranks.subspan(1)));
  return board.step(in, in.ranks.subspan(1), {});
}

result<void> run(rank_board& board, collective& in, barrier_algorithm algorithm) {
  switch (algorithm) {
    case barrier_algorithm::binary_tree:
      return climb(board, in);
    case barrier_algorithm::central:
      return meet_at_first(board, in);
    case barrier_algorithm::dissemination:
      break;
  }
  return disseminate(board, in);
}

}  // namespace

result<void> barrier(const participants& of, barrier_algorithm algorithm) {
  VERBENA_TRY(auto in, of.board.enter(of, {"barrier", "a barrier"},
                                      {static_cast<std::uint64_t>(algorithm)}));
  VERBENA_TRY_VOID(run(of.board, in, algorithm));
  of.board.end_barrier();
  return {};
}

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::net
