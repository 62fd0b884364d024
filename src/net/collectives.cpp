// SPDX-License-Identifier: MIT
// Collective operations. Large operations divide the data into one part per rank.
#include "src/net/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

// Operations with more bytes transfer parts along a ring.
constexpr std::size_t most_at_once = std::size_t{16} << 10U;

constexpr operation_name broadcast_name{"broadcast", "a broadcast"};
constexpr operation_name all_gather_name{"all_gather", "an all_gather"};
constexpr operation_name reduce_name{"reduce", "a reduce"};
constexpr operation_name all_reduce_name{"all_reduce", "an all_reduce"};
constexpr operation_name all_to_all_name{"all_to_all", "an all_to_all"};

error refuse(operation_name of, const std::string& why) {
  return error::invalid_argument(of.function, {}, why);
}

// Returns the values of a reduction.
operation_values values_of(operation_code code, const registered_bytes& data,
                           const combination& with, std::uint32_t root = 0) {
  return {.code = code,
          .bytes = data.length,
          .root = root,
          .element_bytes = static_cast<std::uint32_t>(with.element_bytes),
          .element = with.element,
          .operation = with.operation};
}

result<std::size_t> index_of_root(operation_name name, std::span<const std::uint32_t> ranks,
                                  std::uint32_t root) {
  const auto found = std::ranges::find(ranks, root);
  if (found == ranks.end())
    return refuse(name, fmt::format("the root, rank {}, is not in the list of ranks", root));
  return static_cast<std::size_t>(found - ranks.begin());
}

result<void> check_divisible(operation_name name, std::size_t bytes, std::size_t count) {
  if (bytes % count == 0) return {};
  return refuse(
      name, fmt::format("{} bytes are not a multiple of the number of ranks of the operation, {}; "
                        "after shrink() or readmit(), the members have changed",
                        bytes, count));
}

result<void> check_elements(operation_name name, const registered_bytes& data,
                            const combination& with) {
  if (data.length % with.element_bytes != 0)
    return refuse(name, fmt::format("{} bytes are not a multiple of the size of an element, {}",
                                    data.length, with.element_bytes));
  if (reinterpret_cast<std::uintptr_t>(data.data) % with.alignment != 0)
    return refuse(name, fmt::format("the address of the memory is not a multiple of the alignment "
                                    "of an element, {} bytes",
                                    with.alignment));
  return {};
}

// The data of an operation, divided into one part per rank. The lengths of two parts differ by at
// most one element.
class parts {
 public:
  parts(const registered_bytes& all, std::size_t count, std::size_t element)
      : all_(all), count_(count), element_(element) {}

  // Returns the part at `place`, modulo the number of parts.
  [[nodiscard]] registered_bytes at(std::size_t place) const {
    const std::size_t part = place % count_;
    return all_.part(offset(part), offset(part + 1) - offset(part));
  }

 private:
  [[nodiscard]] std::size_t offset(std::size_t part) const {
    const std::size_t elements = all_.length / element_;
    return (elements / count_ * part + std::min(part, elements % count_)) * element_;
  }

  registered_bytes all_;
  std::size_t count_;
  std::size_t element_;
};

parts parts_of(const collective& in) { return {in.data, in.count(), in.element_bytes}; }

void set_send(const collective& in, board_step& out, std::size_t to,
              const registered_bytes& bytes) {
  out.to = in.at(to);
  out.out = bytes;
}

void set_receive(const collective& in, board_step& out, std::size_t from,
                 const registered_bytes& bytes, const combination* with = nullptr) {
  out.from = in.at(from);
  out.into = bytes;
  out.with = with;
}

// In all algorithms, a step depends only on its number; see step_function.

// Ring: each rank sends a part to the next rank and receives a part from the previous rank, in
// count - 1 steps. In the first step, the rank sends part `own`.
bool pass_on(const collective& in, std::size_t number, board_step& out, std::size_t own,
             const combination* with = nullptr) {
  const std::size_t count = in.count();
  if (number + 1 >= count) return false;
  const parts of = parts_of(in);
  set_send(in, out, in.index + 1, of.at(own + count - number));
  set_receive(in, out, in.index + count - 1, of.at(own + 2 * count - number - 1), with);
  return true;
}

// Gather by doubling: in each round, a rank sends all parts that it has, up to the number that are
// still missing. Initially, a rank has the part at its index. Each round is two steps, because its
// parts may wrap around the end of the memory.
bool gather_doubling(const collective& in, std::size_t number, board_step& out) {
  const std::size_t count = in.count();
  const std::size_t distance = std::size_t{1} << number / 2;
  if (distance >= count) return false;
  const std::size_t each = in.data.length / count;
  const std::size_t blocks = std::min(distance, count - distance);
  // The `blocks` parts that end with the part of this rank, and those that end with the part of the
  // sender; both may wrap.
  const std::size_t out_first = (in.index + count + 1 - blocks) % count;
  const std::size_t in_first = (in.index + 2 * count + 1 - distance - blocks) % count;
  const std::size_t out_head = std::min(blocks, count - out_first);
  const std::size_t in_head = std::min(blocks, count - in_first);
  const bool is_head = number % 2 == 0;
  set_send(in, out, in.index + distance,
           is_head ? in.data.part(out_first * each, out_head * each)
                   : in.data.part(0, (blocks - out_head) * each));
  set_receive(in, out, in.index + count - distance,
              is_head ? in.data.part(in_first * each, in_head * each)
                      : in.data.part(0, (blocks - in_head) * each));
  return true;
}

// Binomial tree: the parent of a place is the place with its lowest set bit cleared. The root is
// place 0.
bool broadcast_tree(const collective& in, std::size_t number, board_step& out) {
  const std::size_t count = in.count();
  const std::size_t place = (in.index + count - in.root) % count;
  const std::size_t lowest = place == 0 ? std::bit_ceil(count) : place & (~place + 1);
  if (place != 0 && number == 0) {
    set_receive(in, out, in.root + place - lowest, in.data);
    return true;
  }
  const std::size_t bit = lowest / 2 >> (place == 0 ? number : number - 1);
  if (bit == 0) return false;
  if (place + bit < count) set_send(in, out, in.root + place + bit, in.data);
  return true;
}

bool reduce_tree(const collective& in, std::size_t number, board_step& out) {
  const std::size_t count = in.count();
  const std::size_t place = (in.index + count - in.root) % count;
  const std::size_t bit = std::size_t{1} << number;
  const bool has_sent = (place & (bit - 1)) != 0;
  if (bit >= count || has_sent) return false;
  if ((place & bit) != 0)
    set_send(in, out, in.root + place - bit, in.data);
  else if (place + bit < count)
    set_receive(in, out, in.root + place + bit, in.data, in.with);
  return true;
}

// Recursive doubling. If the number of ranks exceeds a power of 2 by `pairs`, the first 2 * `pairs`
// ranks form pairs; the rank with the even index contributes through the other rank of its pair.
bool reduce_doubling(const collective& in, std::size_t number, board_step& out) {
  const std::size_t power = std::bit_floor(in.count());
  const std::size_t pairs = in.count() - power;
  const bool is_paired = in.index < 2 * pairs;
  if (is_paired && in.index % 2 == 0) {
    if (number == 0) set_send(in, out, in.index + 1, in.data);
    if (number == 1) set_receive(in, out, in.index + 1, in.data);
    return number < 2;
  }
  if (is_paired && number == 0) {
    set_receive(in, out, in.index - 1, in.data, in.with);
    return true;
  }
  const std::size_t round = is_paired ? number - 1 : number;
  const auto rounds = static_cast<std::size_t>(std::countr_zero(power));
  if (round >= rounds) {
    if (!is_paired || round > rounds) return false;
    set_send(in, out, in.index - 1, in.data);
    return true;
  }
  const std::size_t place = is_paired ? in.index / 2 : in.index - pairs;
  const std::size_t other = place ^ std::size_t{1} << round;
  const std::size_t partner = other < pairs ? 2 * other + 1 : other + pairs;
  set_send(in, out, partner, in.data);
  set_receive(in, out, partner, in.data, in.with);
  return true;
}

// Returns the index of the rank with position `number` in the list without the root.
std::size_t place_beside_root(const collective& in, std::size_t number) {
  return number < in.root ? number : number + 1;
}

bool broadcast_parts(const collective& in, std::size_t number, board_step& out) {
  const std::size_t scattered = in.index == in.root ? in.count() - 1 : 1;
  if (number >= scattered) return pass_on(in, number - scattered, out, in.index);
  if (in.index == in.root) {
    const std::size_t to = place_beside_root(in, number);
    set_send(in, out, to, parts_of(in).at(to));
  } else {
    set_receive(in, out, in.root, parts_of(in).at(in.index));
  }
  return true;
}

bool gather_parts(const collective& in, std::size_t number, board_step& out) {
  return pass_on(in, number, out, in.index);
}

// After count - 1 steps, each rank has the combined part that follows the part at its index.
bool reduce_parts(const collective& in, std::size_t number, board_step& out) {
  if (pass_on(in, number, out, in.index, in.with)) return true;
  const std::size_t gathered = number - (in.count() - 1);
  if (in.index != in.root) {
    if (gathered == 0) set_send(in, out, in.root, parts_of(in).at(in.index + 1));
    return gathered == 0;
  }
  if (gathered + 1 >= in.count()) return false;
  const std::size_t from = place_beside_root(in, gathered);
  set_receive(in, out, from, parts_of(in).at(from + 1));
  return true;
}

bool all_reduce_parts(const collective& in, std::size_t number, board_step& out) {
  return pass_on(in, number, out, in.index, in.with) ||
         pass_on(in, number - (in.count() - 1), out, in.index + 1);
}

bool exchange_parts(const collective& in, std::size_t number, board_step& out) {
  const std::size_t count = in.count();
  const std::size_t distance = number + 1;
  if (distance >= count) return false;
  const std::size_t each = in.data.length / count;
  const std::size_t to = (in.index + distance) % count;
  const std::size_t from = (in.index + count - distance) % count;
  set_send(in, out, to, in.out.part(to * each, each));
  set_receive(in, out, from, in.data.part(from * each, each));
  return true;
}

bool fits_at_once(const collective& in) {
  return in.data.length <= most_at_once || in.count() <= 2;
}

}  // namespace

result<collective> begin_broadcast(const participants& of, const registered_bytes& data,
                                   std::uint32_t root) {
  VERBENA_TRY(const std::size_t first, index_of_root(broadcast_name, of.ranks, root));
  VERBENA_TRY(
      auto in,
      of.board.enter(of, broadcast_name,
                     {.code = operation_code::broadcast, .bytes = data.length, .root = root}));
  in.data = data;
  in.root = first;
  in.next = fits_at_once(in) ? broadcast_tree : broadcast_parts;
  return in;
}

result<collective> begin_all_gather(const participants& of, const registered_bytes& data) {
  VERBENA_TRY_VOID(check_divisible(all_gather_name, data.length, of.ranks.size()));
  VERBENA_TRY(auto in, of.board.enter(of, all_gather_name,
                                      {.code = operation_code::all_gather, .bytes = data.length}));
  in.data = data;
  in.next = data.length <= most_at_once ? gather_doubling : gather_parts;
  return in;
}

result<collective> begin_reduce(const participants& of, const registered_bytes& data,
                                std::uint32_t root, const combination& with) {
  VERBENA_TRY_VOID(check_elements(reduce_name, data, with));
  VERBENA_TRY(const std::size_t first, index_of_root(reduce_name, of.ranks, root));
  VERBENA_TRY(auto in,
              of.board.enter(of, reduce_name, values_of(operation_code::reduce, data, with, root)));
  in.data = data;
  in.root = first;
  in.with = &with;
  in.next = fits_at_once(in) ? reduce_tree : reduce_parts;
  return in;
}

result<collective> begin_all_reduce(const participants& of, const registered_bytes& data,
                                    const combination& with) {
  VERBENA_TRY_VOID(check_elements(all_reduce_name, data, with));
  VERBENA_TRY(auto in, of.board.enter(of, all_reduce_name,
                                      values_of(operation_code::all_reduce, data, with)));
  in.data = data;
  in.with = &with;
  in.next = fits_at_once(in) ? reduce_doubling : all_reduce_parts;
  return in;
}

result<collective> begin_all_to_all(const participants& of, const registered_bytes& out,
                                    const registered_bytes& into) {
  const std::size_t count = of.ranks.size();
  VERBENA_TRY_VOID(check_divisible(all_to_all_name, out.length, count));
  if (out.length != into.length)
    return refuse(
        all_to_all_name,
        fmt::format("the source has {} bytes and the sink {}; both must have the same length",
                    out.length, into.length));
  VERBENA_TRY(auto in, of.board.enter(of, all_to_all_name,
                                      {.code = operation_code::all_to_all, .bytes = out.length}));
  const std::size_t each = out.length / count;
  std::memcpy(into.part(in.index * each, each).data, out.part(in.index * each, each).data, each);
  in.data = into;
  in.out = out;
  in.next = exchange_parts;
  return in;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
