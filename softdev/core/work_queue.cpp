// SPDX-License-Identifier: MIT
#include "softdev/core/work_queue.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "softdev/core/cache_line.hpp"

namespace verbena::softdev {
namespace {
constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}
constexpr std::uint16_t narrow(std::size_t number) { return static_cast<std::uint16_t>(number); }
static_assert(std::max({limits::max_work_requests, limits::max_inline_bytes,
                        std::uint32_t{limits::max_sges * sizeof(sge)}}) <=
              std::numeric_limits<std::uint16_t>::max() / 2);
}  // namespace

template <class Entry>
std::size_t work_queue<Entry>::extra_offset_of(const sizes& of) noexcept {
  const std::size_t data = std::max<std::size_t>(of.max_sges * sizeof(sge), of.max_inline_bytes);
  return sizeof(Entry) + round_up(data, alignof(Entry));
}
template <class Entry>
std::size_t work_queue<Entry>::stride_of(const sizes& of) noexcept {
  return round_up(extra_offset_of(of) + of.extra_bytes, cache_line);
}
template <class Entry>
std::size_t work_queue<Entry>::places_of(const sizes& of) noexcept {
  return std::bit_ceil(std::max<std::size_t>(of.wr_count, 1));
}
template <class Entry>
std::size_t work_queue<Entry>::bytes_of(const sizes& of) noexcept {
  return places_of(of) * stride_of(of);
}

template <class Entry>
work_queue<Entry>::work_queue(const sizes& of, std::byte* memory)
    : memory_(memory),
      mask_(narrow(places_of(of) - 1)),
      stride_(narrow(stride_of(of))),
      extra_offset_(narrow(extra_offset_of(of))),
      capacity_(narrow(of.wr_count)),
      max_inline_bytes_(narrow(of.max_inline_bytes)),
      max_sges_(narrow(of.max_sges)) {
  static_assert(std::is_trivially_destructible_v<Entry> && sizeof(Entry) % alignof(sge) == 0);
  if (memory_ != nullptr) return;
  memory_ = static_cast<std::byte*>(::operator new(bytes_of(of), std::align_val_t{cache_line}));
  allocated_ = true;
}

template <class Entry>
work_queue<Entry>::~work_queue() {
  if (allocated_) ::operator delete(memory_, std::align_val_t{cache_line});
}

template class work_queue<send_entry>;
template class work_queue<receive_entry>;

}  // namespace verbena::softdev
