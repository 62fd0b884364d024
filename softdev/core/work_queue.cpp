// SPDX-License-Identifier: MIT
#include "softdev/core/work_queue.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace verbena::softdev {
namespace {
constexpr std::size_t line = 64;
constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}
}  // namespace

template <class Entry>
work_queue<Entry>::work_queue(std::uint32_t wr_count, std::uint32_t max_sges,
                              std::uint32_t max_inline_bytes, std::size_t extra_bytes)
    : capacity_(wr_count),
      max_sges_(max_sges),
      max_inline_bytes_(max_inline_bytes),
      extra_offset_(sizeof(Entry) +
                    round_up(std::max<std::size_t>(max_sges * sizeof(sge), max_inline_bytes),
                             alignof(Entry))),
      stride_(round_up(extra_offset_ + extra_bytes, line)),
      mask_(std::bit_ceil(std::max<std::uint64_t>(wr_count, 1)) - 1),
      memory_(
          static_cast<std::byte*>(::operator new((mask_ + 1) * stride_, std::align_val_t{line}))) {
  static_assert(std::is_trivially_destructible_v<Entry> && sizeof(Entry) % alignof(sge) == 0);
}

template <class Entry>
void work_queue<Entry>::deleter::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, std::align_val_t{line});
}

template class work_queue<send_entry>;
template class work_queue<receive_entry>;

}  // namespace verbena::softdev
