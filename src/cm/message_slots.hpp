// SPDX-License-Identifier: MIT
// Registered memory for advertisement messages in flight. A slot holds one message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "verbena/bringup/advertisement.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// A fixed number of slots and the list of free slots. Threads: one thread at a time.
class message_slots {
 public:
  /// Allocates `count` slots (at least 1) in `domain`. Errors: those of
  /// protection_domain::allocate().
  [[nodiscard]] static result<message_slots> create(const protection_domain& domain,
                                                    std::uint32_t count) {
    VERBENA_TRY(auto region,
                domain.allocate(count * bringup::advertisement_bytes, access::local_write));
    return message_slots(std::move(region), count);
  }

  /// Returns whether a slot is free.
  [[nodiscard]] bool has_free() const noexcept { return !free_.empty(); }
  /// Takes a slot; returns nullopt if all slots are in use.
  [[nodiscard]] std::optional<std::uint32_t> take() {
    if (free_.empty()) return std::nullopt;
    const auto taken = free_.back();
    free_.pop_back();
    return taken;
  }
  /// Adds a slot to the free list.
  void release(std::uint32_t slot) { free_.push_back(slot); }  // within the reserved capacity

  /// Returns the memory of a slot.
  [[nodiscard]] std::span<std::byte> bytes(std::uint32_t slot) const {
    return region_.bytes().subspan(slot * bringup::advertisement_bytes,
                                   bringup::advertisement_bytes);
  }
  [[nodiscard]] local_slice slice(std::uint32_t slot) const {
    return region_.slice(slot * bringup::advertisement_bytes, bringup::advertisement_bytes);
  }

 private:
  message_slots(memory_region region, std::uint32_t count) : region_(std::move(region)) {
    free_.reserve(count);
    for (std::uint32_t slot = count; slot-- > 0;) free_.push_back(slot);
  }

  memory_region region_;
  std::vector<std::uint32_t> free_;
};

}  // namespace verbena::inline VERBENA_ABI::cm::detail
