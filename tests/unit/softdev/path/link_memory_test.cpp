// SPDX-License-Identifier: MIT
#include "softdev/path/link_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace verbena::softdev {
namespace {

TEST(link_memory, sealed_memory_is_identified_by_size_and_seals) {
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

TEST(link_memory, unsealed_memory_is_refused) {
  const unique_fd plain(::memfd_create("plain", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(plain.get(), 4096), 0);
  EXPECT_FALSE(is_sealed_memory(plain.get(), 4096, sealed_for::everybody))
      << "the file could shrink";
  const unique_fd event = create_eventfd().value();
  EXPECT_FALSE(is_sealed_memory(event.get(), 4096, sealed_for::everybody));
  EXPECT_FALSE(is_sealed_memory(-1, 4096, sealed_for::everybody));
}

TEST(link_memory, blocking_eventfd_is_refused) {
  const unique_fd good = create_eventfd().value();
  EXPECT_TRUE(is_eventfd(good.get()));
  const unique_fd blocking(::eventfd(0, EFD_CLOEXEC));
  EXPECT_FALSE(is_eventfd(blocking.get()));
  const unique_fd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(is_eventfd(file.get()));
  EXPECT_FALSE(is_eventfd(-1));
}

TEST(link_memory, eventfd_is_readable_from_signal_to_drain) {
  const unique_fd event = create_eventfd().value();
  pollfd look{event.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&look, 1, 0), 0);
  signal_eventfd(event.get());
  signal_eventfd(event.get());
  EXPECT_EQ(::poll(&look, 1, 0), 1);
  drain_eventfd(event.get());
  EXPECT_EQ(::poll(&look, 1, 0), 0);
  drain_eventfd(event.get());  // does not block if the eventfd is empty
}

TEST(link_memory, moved_mapping_unmaps_once) {
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
