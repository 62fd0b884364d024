// SPDX-License-Identifier: MIT
#include "softdev/shm/sealed_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softdev/ipc/eventfd.hpp"

namespace verbena::softdev {
namespace {

TEST(sealed_memory, sealed_memory_is_identified_by_size_and_seals) {
  auto closed = create_sealed("test", 8192, sealed_for::owner_only).value();
  auto open = create_sealed("test", 8192, sealed_for::everybody).value();
  EXPECT_TRUE(is_sealed_memory(closed.fd.get(), 8192, sealed_for::owner_only));
  EXPECT_TRUE(is_sealed_memory(closed.fd.get(), 8192, sealed_for::everybody));
  EXPECT_FALSE(is_sealed_memory(closed.fd.get(), 4096, sealed_for::owner_only));
  EXPECT_FALSE(is_sealed_memory(open.fd.get(), 8192, sealed_for::owner_only));
  EXPECT_NE(::ftruncate(closed.fd.get(), 0), 0);
  EXPECT_NE(::ftruncate(open.fd.get(), 1 << 20), 0);
  EXPECT_TRUE((::fcntl(open.fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST(sealed_memory, unsealed_memory_is_refused) {
  const unique_fd plain(::memfd_create("plain", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(plain.get(), 4096), 0);
  EXPECT_FALSE(is_sealed_memory(plain.get(), 4096, sealed_for::everybody))
      << "the file could shrink";
  const unique_fd event = create_eventfd().value();
  EXPECT_FALSE(is_sealed_memory(event.get(), 4096, sealed_for::everybody));
  EXPECT_FALSE(is_sealed_memory(-1, 4096, sealed_for::everybody));
}

TEST(sealed_memory, moved_mapping_unmaps_once) {
  auto memory = create_sealed("test", 4096, sealed_for::everybody).value();
  mapping moved = std::move(memory.map);
  EXPECT_EQ(memory.map.size(), 0U);
  std::byte* at = moved.data();
  ASSERT_NE(at, nullptr);
  *at = std::byte{1};
  moved = mapping();
  unsigned char resident = 0;
  EXPECT_NE(::mincore(at, 4096, &resident), 0) << "the memory must be unmapped";
}

}  // namespace
}  // namespace verbena::softdev
