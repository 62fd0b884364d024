// SPDX-License-Identifier: MIT
// Collective operations. Those with many bytes divide them into a part for each rank.
#include "src/net/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

// Operations with more bytes transfer parts in a ring.
constexpr std::size_t most_at_once = std::size_t{16} << 10U;

constexpr operation_name broadcast_name{"broadcast", "a broadcast"};
constexpr operation_name all_gather_name{"all_gather", "an all_gather"};
constexpr operation_name reduce_name{"reduce", "a reduce"};
constexpr operation_name all_reduce_name{"all_reduce", "an all_reduce"};
constexpr operation_name all_to_all_name{"all_to_all", "an all_to_all"};

// The operations, as part of their tags. Algorithms of barriers have the numbers before.
enum class code : std::uint64_t { broadcast = 16, all_gather, reduce, all_reduce, all_to_all };

error refuse(operation_name of, const std::string& why) {
  return error::invalid_argument(of.function, {}, why);
}

// The values that must be equal on all ranks.
struct description {
  code what;
  std::size_t bytes;
  std::uint32_t root = 0;
  std::size_t element_bytes = 1;
};

result<collective> enter(const participants& of, operation_name name, const description& with) {
  VERBENA_TRY(auto in, of.board.enter(of, name,
                                      {static_cast<std::uint64_t>(with.what), with.bytes, with.root,
                                       with.element_bytes}));
  in.element_bytes = with.element_bytes;
  return in;
}

result<std::size_t> index_of_root(operation_name name, std::span<const std::uint32_t> ranks,
                                  std::uint32_t root) {
  const auto found = std::ranges::find(ranks, root);
  if (found == ranks.end())
    return refuse(name, fmt::format("the ranks do not contain the root, rank {}", root));
  return static_cast<std::size_t>(found - ranks.begin());
}

result<void> check_divisible(operation_name name, std::size_t bytes, std::size_t count) {
  if (bytes % count == 0) return {};
  return refuse(
      name, fmt::format("{} bytes are not a multiple of the number of ranks, {}", bytes, count));
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

// The bytes of an operation, in a part for each rank, at most one element longer than others.
class parts {
 public:
  parts(const registered_bytes& all, std::size_t count, std::size_t element)
      : all_(all), count_(count), element_(element) {}

  // Returns a part, counted cyclically.
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

result<void> send(rank_board& board, collective& in, std::size_t to,
                  const registered_bytes& bytes) {
  const outgoing_part out{.to = in.at(to), .bytes = bytes};
  return board.transfer(in, &out, nullptr);
}

result<void> receive(rank_board& board, collective& in, std::size_t from,
                     const registered_bytes& bytes, const combination* with = nullptr) {
  const incoming_part into{.from = in.at(from), .bytes = bytes, .with = with};
  return board.transfer(in, nullptr, &into);
}

// Each rank sends a part to the next one, and receives a part of the one before, except for the
// last part: it has received all. The rank has part `own` first.
result<void> pass_on(rank_board& board, collective& in, const parts& of, std::size_t own,
                     const combination* with = nullptr) {
  const std::size_t count = in.count();
  for (std::size_t round = 0; round + 1 < count; ++round) {
    const outgoing_part out{.to = in.at(in.index + 1), .bytes = of.at(own + count - round)};
    const incoming_part into{.from = in.at(in.index + count - 1),
                             .bytes = of.at(own + 2 * count - round - 1),
                             .with = with};
    VERBENA_TRY_VOID(board.transfer(in, &out, &into));
  }
  return {};
}

// Afterwards each rank has the combined part behind that of its index.
result<void> reduce_scatter(rank_board& board, collective& in, const parts& of,
                            const combination& with) {
  return pass_on(board, in, of, in.index, &with);
}

// The first parts of all ranks, which each has at its index, by sending all that a rank has.
result<void> gather_doubling(rank_board& board, collective& in, const registered_bytes& data) {
  const std::size_t count = in.count();
  const std::size_t each = data.length / count;
  for (std::size_t distance = 1; distance < count; distance *= 2) {
    const std::size_t blocks = std::min(distance, count - distance);
    // The last `blocks` parts up to the own one, and the same ones of the sender, possibly cyclic.
    const std::size_t out_first = (in.index + count + 1 - blocks) % count;
    const std::size_t in_first = (in.index + 2 * count + 1 - distance - blocks) % count;
    const std::size_t out_head = std::min(blocks, count - out_first);
    const std::size_t in_head = std::min(blocks, count - in_first);
    outgoing_part out{.to = in.at(in.index + distance),
                      .bytes = data.part(out_first * each, out_head * each)};
    incoming_part into{.from = in.at(in.index + count - distance),
                       .bytes = data.part(in_first * each, in_head * each)};
    VERBENA_TRY_VOID(board.transfer(in, &out, &into));
    out.bytes = data.part(0, (blocks - out_head) * each);
    into.bytes = data.part(0, (blocks - in_head) * each);
    VERBENA_TRY_VOID(board.transfer(in, &out, &into));
  }
  return {};
}

// Along a tree in which the parent of a place has its lowest bit cleared. Places begin at the root.
result<void> broadcast_tree(rank_board& board, collective& in, const registered_bytes& data,
                            std::size_t root) {
  const std::size_t count = in.count();
  const std::size_t place = (in.index + count - root) % count;
  std::size_t bit = place == 0 ? std::bit_ceil(count) : place & (~place + 1);
  if (place != 0) VERBENA_TRY_VOID(receive(board, in, root + place - bit, data));
  for (bit /= 2; bit != 0; bit /= 2)
    if (place + bit < count) VERBENA_TRY_VOID(send(board, in, root + place + bit, data));
  return {};
}

result<void> reduce_tree(rank_board& board, collective& in, const registered_bytes& data,
                         std::size_t root, const combination& with) {
  const std::size_t count = in.count();
  const std::size_t place = (in.index + count - root) % count;
  for (std::size_t bit = 1; bit < count; bit *= 2) {
    if ((place & bit) != 0) return send(board, in, root + place - bit, data);
    if (place + bit < count) VERBENA_TRY_VOID(receive(board, in, root + place + bit, data, &with));
  }
  return {};
}

// Recursive doubling. If the number of ranks is not a power of 2, each of the first ranks with an
// even index contributes through the rank after it.
result<void> reduce_doubling(rank_board& board, collective& in, const registered_bytes& data,
                             const combination& with) {
  const std::size_t power = std::bit_floor(in.count());
  const std::size_t pairs = in.count() - power;
  const bool is_paired = in.index < 2 * pairs;
  if (is_paired && in.index % 2 == 0) {
    VERBENA_TRY_VOID(send(board, in, in.index + 1, data));
    return receive(board, in, in.index + 1, data);
  }
  if (is_paired) VERBENA_TRY_VOID(receive(board, in, in.index - 1, data, &with));
  const std::size_t place = is_paired ? in.index / 2 : in.index - pairs;
  for (std::size_t bit = 1; bit < power; bit *= 2) {
    const std::size_t other = place ^ bit;
    const std::uint32_t with_rank = in.at(other < pairs ? 2 * other + 1 : other + pairs);
    const outgoing_part out{.to = with_rank, .bytes = data};
    const incoming_part into{.from = with_rank, .bytes = data, .with = &with};
    VERBENA_TRY_VOID(board.transfer(in, &out, &into));
  }
  return is_paired ? send(board, in, in.index - 1, data) : result<void>();
}

}  // namespace

result<void> broadcast(const participants& of, const registered_bytes& data, std::uint32_t root) {
  VERBENA_TRY(const std::size_t first, index_of_root(broadcast_name, of.ranks, root));
  VERBENA_TRY(auto in, enter(of, broadcast_name, {code::broadcast, data.length, root}));
  if (data.length <= most_at_once || in.count() <= 2)
    return broadcast_tree(of.board, in, data, first);
  const parts divided(data, in.count(), 1);
  if (in.index == first) {
    for (std::size_t to = 0; to < in.count(); ++to)
      if (to != first) VERBENA_TRY_VOID(send(of.board, in, to, divided.at(to)));
  } else {
    VERBENA_TRY_VOID(receive(of.board, in, first, divided.at(in.index)));
  }
  return pass_on(of.board, in, divided, in.index);
}

result<void> all_gather(const participants& of, const registered_bytes& data) {
  VERBENA_TRY_VOID(check_divisible(all_gather_name, data.length, of.ranks.size()));
  VERBENA_TRY(auto in, enter(of, all_gather_name, {code::all_gather, data.length}));
  if (data.length <= most_at_once) return gather_doubling(of.board, in, data);
  return pass_on(of.board, in, parts(data, in.count(), 1), in.index);
}

result<void> reduce(const participants& of, const registered_bytes& data, std::uint32_t root,
                    const combination& with) {
  VERBENA_TRY_VOID(check_elements(reduce_name, data, with));
  VERBENA_TRY(const std::size_t first, index_of_root(reduce_name, of.ranks, root));
  VERBENA_TRY(auto in,
              enter(of, reduce_name, {code::reduce, data.length, root, with.element_bytes}));
  if (data.length <= most_at_once || in.count() <= 2)
    return reduce_tree(of.board, in, data, first, with);
  const parts divided(data, in.count(), with.element_bytes);
  VERBENA_TRY_VOID(reduce_scatter(of.board, in, divided, with));
  if (in.index != first) return send(of.board, in, first, divided.at(in.index + 1));
  for (std::size_t from = 0; from < in.count(); ++from)
    if (from != first) VERBENA_TRY_VOID(receive(of.board, in, from, divided.at(from + 1)));
  return {};
}

result<void> all_reduce(const participants& of, const registered_bytes& data,
                        const combination& with) {
  VERBENA_TRY_VOID(check_elements(all_reduce_name, data, with));
  VERBENA_TRY(auto in,
              enter(of, all_reduce_name, {code::all_reduce, data.length, 0, with.element_bytes}));
  if (data.length <= most_at_once || in.count() <= 2)
    return reduce_doubling(of.board, in, data, with);
  const parts divided(data, in.count(), with.element_bytes);
  VERBENA_TRY_VOID(reduce_scatter(of.board, in, divided, with));
  return pass_on(of.board, in, divided, in.index + 1);
}

result<void> all_to_all(const participants& of, const registered_bytes& out,
                        const registered_bytes& in_bytes) {
  const std::size_t count = of.ranks.size();
  VERBENA_TRY_VOID(check_divisible(all_to_all_name, out.length, count));
  if (out.length != in_bytes.length)
    return refuse(all_to_all_name, fmt::format("{} bytes are sent, but there is memory for {}",
                                               out.length, in_bytes.length));
  VERBENA_TRY(auto in, enter(of, all_to_all_name, {code::all_to_all, out.length}));
  const std::size_t each = out.length / count;
  std::memcpy(in_bytes.part(in.index * each, each).data, out.part(in.index * each, each).data,
              each);
  for (std::size_t distance = 1; distance < count; ++distance) {
    const std::size_t to = (in.index + distance) % count;
    const std::size_t from = (in.index + count - distance) % count;
    const outgoing_part sent{.to = in.at(to), .bytes = out.part(to * each, each)};
    const incoming_part into{.from = in.at(from), .bytes = in_bytes.part(from * each, each)};
    VERBENA_TRY_VOID(of.board.transfer(in, &sent, &into));
  }
  return {};
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
