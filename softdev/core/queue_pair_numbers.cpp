// SPDX-License-Identifier: MIT
#include "softdev/core/queue_pair_numbers.hpp"

#include "softdev/core/types.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev {

queue_pair_numbers::queue_pair_numbers(std::uint32_t process_slot)
    : slot_(process_slot),
      first_(first_number_of(process_slot)),
      count_(count_of_numbers(process_slot)),
      reserved_(new std::uint64_t[limits::queue_pair_indices / 64]()) {}

std::optional<std::uint32_t> queue_pair_numbers::take() noexcept {
  while (in_use_ + resting_.size() >= limit()) {
    const auto oldest = resting_.take_oldest();
    if (!oldest) break;
    release(*oldest);
  }
  if (in_use_ >= limit()) return std::nullopt;
  for (;;) {
    const std::uint32_t number = first_ + random_u32() % count_;
    if (number <= 1 || number == 0xff'ffff) continue;
    const std::uint32_t index = index_of_number(number);
    std::uint64_t& word = reserved_[index / 64];
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    if ((word & bit) != 0) continue;
    word |= bit;
    ++in_use_;
    ++taken_;
    return number;
  }
}

void queue_pair_numbers::give_back(std::uint32_t number) noexcept {
  --in_use_;
  if (const auto oldest = resting_.add(index_of_number(number))) release(*oldest);
}

void queue_pair_numbers::release(std::uint32_t index) noexcept {
  reserved_[index / 64] &= ~(std::uint64_t{1} << (index % 64));
}

}  // namespace verbena::softdev
