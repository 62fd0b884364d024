// SPDX-License-Identifier: MIT
#include "src/verbs/gid_query.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "verbena/verbs/gid_table.hpp"

namespace verbena {
namespace {

// A device with one port and three entries, of which the second is empty, and a library that is
// older than rdma-core 32. The folder stands for the device's folder in sysfs.
class old_gid_table : public testing::Test {
 protected:
  old_gid_table() {
    std::strncpy(device_.ibdev_path, folder_.c_str(), sizeof device_.ibdev_path - 1);
    context_.device = &device_;
    older_.verbs.query_device.set([](ibv_context*, ibv_device_attr* out) {
      out->phys_port_cnt = 1;
      return 0;
    });
    older_.verbs.query_port.set([](ibv_context*, std::uint8_t port, ibv_port_attr* out) {
      out->gid_tbl_len = 3;
      out->link_layer = IBV_LINK_LAYER_ETHERNET;
      return port == 1 ? 0 : EINVAL;
    });
    older_.verbs.query_gid.set([](ibv_context*, std::uint8_t, int index, ibv_gid* out) {
      *out = {};
      if (index != 1) out->raw[15] = static_cast<std::uint8_t>(index + 1);
      return 0;
    });
    write("types/0", "IB/RoCE v1\n");
    write("types/2", "RoCE v2\n");
    write("ndevs/2", "lo\n");
  }
  ~old_gid_table() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& file, const char* text) {
    const auto path = folder_ / "ports/1/gid_attrs" / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] detail::queried_device device() { return {&older_, &context_}; }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("verbena_gids_" + std::to_string(::getpid()));
  ibv_device device_{};
  ibv_context context_{};
  provider older_;
};

TEST_F(old_gid_table, table_has_the_entries_with_type_and_interface) {
  std::array<sys::gid_entry_layout, 8> entries{};
  ASSERT_EQ(detail::read_gid_table(device(), entries), 2);
  EXPECT_EQ(entries[0].gid.raw[15], 1);
  EXPECT_EQ(entries[0].gid_index, 0U);
  EXPECT_EQ(entries[0].port_num, 1U);
  EXPECT_EQ(static_cast<gid_type>(entries[0].gid_type), gid_type::roce_v1);
  EXPECT_EQ(entries[0].interface_index, 0U);
  EXPECT_EQ(entries[1].gid.raw[15], 3);
  EXPECT_EQ(entries[1].gid_index, 2U);
  EXPECT_EQ(static_cast<gid_type>(entries[1].gid_type), gid_type::roce_v2);
  EXPECT_EQ(entries[1].interface_index, 1U);
}

TEST_F(old_gid_table, table_has_at_most_the_entries_of_the_caller) {
  std::array<sys::gid_entry_layout, 1> entries{};
  EXPECT_EQ(detail::read_gid_table(device(), entries), 1);
}

TEST_F(old_gid_table, entry_is_read_alone) {
  sys::gid_entry_layout entry{};
  EXPECT_FALSE(detail::read_gid(device(), 1, 2, entry).failed);
  EXPECT_EQ(static_cast<gid_type>(entry.gid_type), gid_type::roce_v2);
  EXPECT_EQ(detail::read_gid(device(), 1, 1, entry).code, ENODATA);
  EXPECT_EQ(detail::read_gid(device(), 1, 3, entry).code, EINVAL);
  EXPECT_EQ(detail::read_gid(device(), 2, 0, entry).code, EINVAL);
}

TEST_F(old_gid_table, failures_are_returned) {
  std::array<sys::gid_entry_layout, 8> entries{};
  older_.verbs.query_port.set([](ibv_context*, std::uint8_t, ibv_port_attr*) { return EIO; });
  EXPECT_EQ(detail::read_gid_table(device(), entries), -EIO);
  older_.verbs.query_device.set([](ibv_context*, ibv_device_attr*) { return EACCES; });
  EXPECT_EQ(detail::read_gid_table(device(), entries), -EACCES);
}

}  // namespace
}  // namespace verbena
