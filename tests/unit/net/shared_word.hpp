// SPDX-License-Identifier: MIT
// Memory of ranks that are connected at their first operations.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/unit/net/ranks.hpp"

namespace verbena::test {

inline net::group_options on_first_use(const net::first_use_options& with = {}) {
  return {.connect = net::connect_mode::on_first_use, .first_use = with};
}

/// A word of each rank, which the other ranks read and write.
struct shared_word {
  explicit shared_word(joined_rank& here)
      : memory(
            here.pd.allocate(64, access::local_write | access::remote_read | access::remote_write)
                .value()) {
    value() = 1000 + here.group.rank();
    peers = here.group.exchange("words", memory.remote(), test_deadline()).value();
  }
  [[nodiscard]] std::uint64_t& value() const {
    return *reinterpret_cast<std::uint64_t*>(memory.bytes().data());
  }
  /// Reads the word of a rank into the second word.
  [[nodiscard]] operation_result read(joined_rank& here, std::uint32_t rank,
                                      abort_at limit = {}) const {
    return here.group[rank].read(sink(memory, 8, 8), peers[rank].region.slice(0, 8), limit);
  }
  [[nodiscard]] std::uint64_t result() const {
    return *reinterpret_cast<std::uint64_t*>(memory.bytes().data() + 8);
  }

  memory_region memory;
  std::vector<net::peer_region> peers;
};

}  // namespace verbena::test
