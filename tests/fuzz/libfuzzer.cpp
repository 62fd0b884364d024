// SPDX-License-Identifier: MIT
// The program of one target with libFuzzer.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const verbena::fuzz::target& only = *verbena::fuzz::target::first();
  only.run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
