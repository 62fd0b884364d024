// SPDX-License-Identifier: MIT
// The algorithms of barriers.
#include <algorithm>

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

bool disseminate(const collective& in, std::size_t number, board_step& out) {
  const std::size_t distance = std::size_t{1} << number;
  if (distance >= in.count()) return false;
  out.to = in.at(in.index + distance);
  out.from = in.at(in.index + in.count() - distance);
  return true;
}

bool climb(const collective& in, std::size_t number, board_step& out) {
  const std::size_t first = std::min(2 * in.index + 1, in.count());
  const auto children = in.ranks.subspan(first, std::min<std::size_t>(2, in.count() - first));
  if (number < children.size()) {
    out.from = children[number];
    out.later = children.subspan(number + 1);
    return true;
  }
  number -= children.size();
  if (in.index != 0 && number == 0) {
    out.to = out.from = in.ranks[(in.index - 1) / 2];
    return true;
  }
  number -= in.index != 0 ? 1 : 0;
  if (number >= children.size()) return false;
  out.to = children[number];
  return true;
}

bool meet_at_first(const collective& in, std::size_t number, board_step& out) {
  if (in.index != 0) {
    out.to = out.from = in.ranks.front();
    return number == 0;
  }
  const auto others = in.ranks.subspan(1);
  if (number < others.size()) {
    out.from = others[number];
    out.later = others.subspan(number + 1);
    return true;
  }
  number -= others.size();
  if (number >= others.size()) return false;
  out.to = others[number];
  return true;
}

step_function steps_of(barrier_algorithm algorithm) {
  switch (algorithm) {
    case barrier_algorithm::binary_tree:
      return climb;
    case barrier_algorithm::central:
      return meet_at_first;
    case barrier_algorithm::dissemination:
      break;
  }
  return disseminate;
}

}  // namespace

result<collective> begin_barrier(const participants& of, barrier_algorithm algorithm) {
  VERBENA_TRY(auto in, of.board.enter(of, {"barrier", "a barrier"},
                                      {.code = operation_code::barrier,
                                       .root = static_cast<std::uint32_t>(algorithm)}));
  in.is_barrier = true;
  in.next = steps_of(algorithm);
  return in;
}

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::net
